//! The presets in `config/` keep what their first lines promise, and all have such lines.

use std::{fs, path::Path};

use crate::program::TestFolder;

#[test]
fn every_preset_plans_on_the_device_that_its_first_lines_name() {
    let place = TestFolder::new();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("config");
    let mut names: Vec<_> = fs::read_dir(folder).unwrap().map(|e| e.unwrap().path()).collect();
    names.sort();
    assert_eq!(names.len(), 10);
    for path in names {
        let name = path.file_name().unwrap().to_str().unwrap();
        let text = fs::read_to_string(&path).unwrap();
        let head: String = text.lines().take_while(|line| line.starts_with('#')).collect();
        for part in ["   fitgpt train", "# Hardware: ", "# Time:     ", "# Loss:     "] {
            assert!(head.contains(part), "{name} has no `{part}`");
        }
        let hardware = text.lines().find_map(|line| line.strip_prefix("# Hardware: ")).unwrap();
        let device = if hardware.starts_with("RTX 4070 (12 GB)") {
            "--gpu=RTX 4070"
        } else {
            assert!(hardware.starts_with("any CPU, 1 GB"), "{name}: {hardware}");
            "--budget=1GB"
        };
        // From a folder without `config/`: the preset is built in.
        let config = format!("config/{name}");
        let ran = place.run(&["plan", &config, device, "--json"]);
        assert_eq!(ran.code, Some(0), "{name}: {}{}", ran.stdout, ran.stderr);
        let report = ran.json();
        assert_eq!(report["verdict"], "fits", "{name}");
        let is_gpt2 = ["train_gpt2.py", "train_openwebtext.py", "train_fineweb.py"].contains(&name);
        if is_gpt2 {
            assert_eq!(report["effective_batch"]["sequences"], 512, "{name}");
            let torch = place.run(&["plan", &config, device, "--engine=torch", "--json"]);
            assert_eq!(torch.json()["verdict"], "fits", "{name} under PyTorch");
        }
    }
}

#[test]
fn a_pretrained_name_sets_the_sizes_of_the_plan() {
    let place = TestFolder::new();
    let plan = |name: &str| {
        let ran = place.run(&["plan", &format!("--init_from={name}"), "--budget=1TB", "--json"]);
        assert_eq!(ran.code, Some(0), "{}", ran.stderr);
        let report = ran.json();
        let classes = &report["phases"][0]["classes"];
        (report["config"]["n_layer"].as_u64().unwrap(), classes["parameters"].as_u64().unwrap() / 4)
    };
    // The published counts: 124M, 355M, 774M and 1558M.
    assert_eq!(plan("gpt2"), (12, 124_439_808));
    assert_eq!(plan("gpt2-medium"), (24, 354_823_168));
    assert_eq!(plan("gpt2-large"), (36, 774_030_080));
    assert_eq!(plan("gpt2-xl"), (48, 1_557_611_200));
}
