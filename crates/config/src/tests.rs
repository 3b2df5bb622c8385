//! Configuration as callers use it: nanoGPT's presets, overrides, rules, round trips.

use fitgpt_program::Gelu;
use fitgpt_say::{Lang, Say as _};
use proptest::prelude::*;

use super::*;

const FACTS: MachineFacts =
    MachineFacts { now_seconds: 1_700_000_000.5, cuda_is_available: true, bf16_is_supported: true };

fn read(text: &str) -> Result<Written, ConfigError> {
    let mut written = Written::new();
    written.read_python("config.py", text, &FACTS)?;
    Ok(written)
}

fn config(text: &str) -> Config {
    read(text).unwrap().resolve().unwrap()
}

fn overridden(pairs: &[(&str, &str)]) -> Result<Config, ConfigError> {
    let mut written = Written::new();
    for (key, text) in pairs {
        written.set(key, text)?;
    }
    written.resolve()
}

const SHAKESPEARE_CHAR: &str = "
# a small character-level model, good for debugging on a laptop
out_dir = 'out-shakespeare-char'
eval_interval = 250 # keep frequent because we'll overfit
eval_iters = 200
log_interval = 10

always_save_checkpoint = False

wandb_log = False # override via command line if you like
wandb_project = 'shakespeare-char'
wandb_run_name = 'mini-gpt'

dataset = 'shakespeare_char'
gradient_accumulation_steps = 1
batch_size = 64
block_size = 256

n_layer = 6
n_head = 6
n_embd = 384
dropout = 0.2

learning_rate = 1e-3
max_iters = 5000
lr_decay_iters = max_iters # make equal to max_iters usually
min_lr = learning_rate / 10
beta2 = 0.99

warmup_iters = 100 # not super necessary potentially

# on macbook also add
# device = 'cpu'  # run on cpu only
# compile = False # do not torch compile the model
";

const GPT2: &str = "
# launch: torchrun --standalone --nproc_per_node=8 train.py config/train_gpt2.py
wandb_log = True
wandb_project = 'owt'
wandb_run_name='gpt2-124M'

# 12 batch size * 1024 block size * 5 gradaccum * 8 GPUs = 491,520
num_gpus = 8
batch_size = 12
block_size = 1024
gradient_accumulation_steps = 5 * num_gpus

max_iters = 600000
lr_decay_iters = 600000

eval_interval = 1000
eval_iters = 200
log_interval = 10

weight_decay = 1e-1
";

const FINETUNE: &str = "
import time

out_dir = 'out-shakespeare'
eval_interval = 5
eval_iters = 40
wandb_log = False # feel free to turn on
wandb_project = 'shakespeare'
wandb_run_name = 'ft-' + str(time.time())

dataset = 'shakespeare'
init_from = 'gpt2-xl' # this is the largest GPT-2 model

always_save_checkpoint = False

batch_size = 1
gradient_accumulation_steps = 32
max_iters = 20

learning_rate = 3e-5
decay_lr = False
dtype = 'bfloat16' if torch.cuda.is_available() and torch.cuda.is_bf16_supported() else 'float16'
";

const EVAL_GPT2: &str = "
batch_size = 8
eval_iters = 500 # use more iterations to get good estimate
eval_only = True
wandb_log = False
init_from = 'gpt2'
";

#[test]
fn nothing_written_gives_nanogpts_defaults() {
    let config = Config::default();
    assert_eq!(config.out_dir(), "out");
    assert_eq!((config.n_layer(), config.n_head(), config.n_embd()), (12, 12, 768));
    assert_eq!(config.effective_batch(), EffectiveBatch { sequences: 480, tokens: 491_520 });
    assert_eq!((config.learning_rate(), config.min_lr()), (6e-4, 6e-5));
    assert_eq!((config.eval_batch_size(), config.eval_block_size()), (12, 1024));
    assert_eq!(config.device(), DeviceChoice::Auto);
    assert_eq!(config.dtype(), None);
    assert_eq!(config.precision_or(Precision::Float16), Precision::Float16);
    assert_eq!(config.memory_budget(), None);
    assert_eq!(config.start(), "\n");
}

#[test]
fn the_presets_read_as_nanogpt_reads_them() {
    let char_level = config(SHAKESPEARE_CHAR);
    assert_eq!(char_level.lr_decay_iters(), 5000);
    assert_eq!((char_level.learning_rate(), char_level.min_lr()), (1e-3, 1e-4));
    assert_eq!(char_level.effective_batch(), EffectiveBatch { sequences: 64, tokens: 16_384 });
    assert!(!char_level.always_save_checkpoint());

    let gpt2 = config(GPT2);
    assert_eq!(gpt2.gradient_accumulation_steps(), 40);
    assert_eq!(gpt2.effective_batch().tokens, 491_520);

    let finetune = config(FINETUNE);
    assert_eq!(finetune.init_from(), &InitFrom::Pretrained("gpt2-xl".to_owned()));
    assert_eq!(finetune.dtype(), Some(Precision::Bfloat16));
    // The sizes come from the weights, not from the config.
    assert_eq!((finetune.n_layer(), finetune.n_head(), finetune.n_embd()), (48, 25, 1600));
    assert_eq!((finetune.vocab_size(), finetune.bias()), (50_257, true));
    assert_eq!(finetune.gelu(), Gelu::Tanh);
    assert_eq!(finetune.wandb_run_name(), "ft-1700000000.5");

    assert!(config(EVAL_GPT2).eval_only());
}

#[test]
fn later_wins_over_files_and_overrides() {
    let mut written = read(SHAKESPEARE_CHAR).unwrap();
    written.set("block_size", "64").unwrap();
    written
        .read_python("cpu.py", "batch_size = 12\nmax_iters = lr_decay_iters // 2", &FACTS)
        .unwrap();
    written.set("batch_size", "16").unwrap();
    let config = written.resolve().unwrap();
    assert_eq!((config.block_size(), config.batch_size(), config.max_iters()), (64, 16, 2500));
    assert_eq!(written.place_of("batch_size"), Some(&Location::command_line()));
    let place = Location { source: "cpu.py".to_owned(), line: Some(2), column: Some(1) };
    assert_eq!(written.place_of("max_iters"), Some(&place));
    assert_eq!(written.place_of("n_layer").unwrap().to_string(), "config.py:19:1");
    assert_eq!(written.place_of("seed"), None);
}

#[test]
fn an_expression_sees_defaults_and_what_was_written_before() {
    assert_eq!(config("lr_decay_iters = max_iters").lr_decay_iters(), 600_000);
    assert_eq!(config("out_dir = 'out-' + dtype").out_dir(), "out-bfloat16");
    let config = overridden(&[("max_iters", "100"), ("lr_decay_iters", "max_iters // 2")]);
    assert_eq!(config.unwrap().lr_decay_iters(), 50);
}

#[test]
fn a_name_that_is_not_a_key_needs_a_later_use() {
    assert_eq!(config("_x = 2\n_x += 1\nn_layer = _x").n_layer(), 3);
    assert!(read("n_layer = 2 if True else x").is_ok()); // Python does not evaluate it either
    for text in ["batchsize = 8", "n_layer = 2\nbatchsize = 8", "batchsize = 8\nbatchsize += 1"] {
        let error = read(text).unwrap_err();
        assert_eq!(error.kind(), "unknown-key");
        assert_eq!(
            error.say(Lang::English),
            "unknown key `batchsize`; the nearest is `batch_size`"
        );
    }
    // A use before the assignment does not count.
    assert_eq!(read("n_layer = x\nx = 2").unwrap_err().kind(), "unknown-name");
}

#[test]
fn a_refused_file_changes_nothing() {
    let mut written = Written::new();
    assert!(written.read_python("a.py", "n_layer = 3\nn_head = [1]", &FACTS).is_err());
    assert!(written.read_python("a.py", "n_layer = 3\nn_head = 'x'", &FACTS).is_err());
    assert_eq!(written, Written::new());
}

/// A file with these lines.
fn file(lines: &[&str]) -> Result<Written, ConfigError> {
    let mut written = Written::new();
    written.read_python("c.py", &lines.join("\n"), &MachineFacts::default())?;
    Ok(written)
}

#[test]
fn labels_may_have_any_expression() {
    for value in [
        "'run' + str(time.time())",
        "f'gpt2-{n_layer}-{learning_rate:.0e}'",
        "'%s-%d' % (dataset, n_layer)",
        "'{}-{}'.format(dataset, n_layer)",
        "time.strftime('%Y-%m-%d') + \"-a\"",
        "os.environ.get('NAME', f'{dataset!r}')",
        "datetime.now().isoformat()[:10]",
        "'-'.join([str(x) for x in (1, 2)])",
        "[1, 2][0]",
        "(lambda: 'a')()",
    ] {
        for key in ["wandb_run_name", "wandb_project", "out_dir"] {
            let written = file(&[&format!("{key} = {value}"), "batch_size = 3"]);
            let written = written.unwrap_or_else(|e| panic!("{key} = {value}: {e}"));
            assert_eq!(written.get("batch_size"), Some(&3_i64.into()), "{value}");
        }
        // Never for a key that decides the training run.
        let is_known = file(&[&format!("dataset = {value}")]).is_ok();
        assert_eq!(is_known, value.contains("str(time") || value.starts_with("f'"), "{value}");
    }
}

#[test]
fn a_folder_named_by_known_keys_is_evaluated() {
    let out_dir = |lines: &[&str]| file(lines).unwrap().get("out_dir").cloned();
    let text = |text: &str| Some(ConfigValue::from(text));
    assert_eq!(out_dir(&["dataset = 'owt'", "out_dir = f'out-{dataset}'"]), text("out-owt"));
    assert_eq!(
        out_dir(&["n_layer = 6", "tag = 'a'", "out_dir = f\"out-{tag}-{n_layer:02d}\" 'b'"]),
        text("out-a-06b")
    );
    assert_eq!(
        out_dir(&["import os", "out_dir = os.path.join('runs', dataset, 'x')"]),
        text("runs/openwebtext/x")
    );
    let written = file(&["n_layer = 6", "out_dir = 'out-' + socket.gethostname()"]).unwrap();
    assert_eq!(written.get("out_dir"), None);
    let [unknown] = written.unknown() else { panic!("{:?}", written.unknown()) };
    assert_eq!((unknown.key, unknown.place.line), ("out_dir", Some(2)));
    assert!(unknown.reason.to_string().contains("socket.gethostname"), "{}", unknown.reason);
    // A later value decides.
    let mut both = written.clone();
    both.set("out_dir", "here").unwrap();
    assert!(both.unknown().is_empty());
    let mut both = written;
    both.merge(file(&["out_dir = 'there'"]).unwrap());
    assert!(both.unknown().is_empty());
}

#[test]
fn an_unknown_name_is_refused_only_if_the_training_run_needs_it() {
    let stamp = "stamp = time.strftime('%H')";
    assert!(file(&[stamp, "wandb_run_name = 'run' + stamp"]).is_ok());
    assert!(file(&[stamp, "wandb_run_name = shorten(stamp, [1])"]).is_ok());
    let error = file(&[stamp, "dataset = 'a' + stamp"]).unwrap_err();
    assert!(error.to_string().contains("time.strftime"), "{error}");
    assert_eq!(error.place().line, Some(1));
    let error = file(&["out_dir = shorten('a')", "dataset = out_dir"]).unwrap_err();
    assert!(error.to_string().contains("shorten"), "{error}");
    // A name that nothing reads is still a key that does not exist.
    assert!(matches!(file(&[stamp]), Err(ConfigError::UnknownKey { .. })));
    assert!(file(&["batch_size = f'{n_layer}'"]).is_err());
}

#[test]
fn overrides_accept_forms_that_nanogpt_refuses() {
    let table = [
        ("gradient_accumulation_steps", "5*8", "40"),
        ("learning_rate", "1", "1.0"),
        ("learning_rate", "1e-3", "0.001"),
        ("dropout", "0", "0.0"),
        ("compile", "false", "False"),
        ("compile", "0", "False"),
        ("bias", "True", "True"),
        ("batch_size", "1e3", "1000"),
        ("batch_size", "0x10", "16"),
        ("batch_size", " 8 ", "8"),
        ("out_dir", "out", "'out'"),
        ("out_dir", "'out'", "'out'"),
        ("out_dir", "\"it's\"", "\"it's\""),
        ("out_dir", "5", "'5'"),
        ("start", "", "''"),
        ("start", r#""Hi" she said"#, r#"'"Hi" she said'"#),
        ("start", r"'\n'", r"'\n'"),
        ("start", r"\n", r"'\\n'"),
        ("grad_checkpoint", "auto", "'auto'"),
        ("grad_checkpoint", "'auto'", "'auto'"),
        ("grad_checkpoint", "true", "True"),
        ("dtype", "float16", "'float16'"),
        ("dtype", "auto", "None"),
        ("dtype", "None", "None"),
        ("device", "cuda:0", "'cuda:0'"),
        ("memory_budget", "12000000000", "'12GB'"),
        ("memory_budget", "11.5GiB", "'11776MiB'"),
    ];
    for (key, text, value) in table {
        let config = overridden(&[(key, text)]).unwrap();
        let (_, resolved) = config.pairs().into_iter().find(|(name, _)| *name == key).unwrap();
        assert_eq!(resolved.to_string(), value, "{key}={text}");
    }
}

#[test]
fn an_error_names_the_key_its_value_and_what_is_allowed() {
    let table = [
        ("batch_size", "abc", "wrong-kind", "`batch_size` takes an int, not `abc`"),
        ("batch_size", "1.5", "wrong-kind", "`batch_size` takes an int, not `1.5`"),
        ("batch_size", "True", "wrong-kind", "`batch_size` takes an int, not `True`"),
        ("batch_size", "0", "out-of-range", "`batch_size` must be from 1 to 1048576, not `0`"),
        ("n_layer", "-3", "out-of-range", "`n_layer` must be from 1 to 1024, not `-3`"),
        ("n_layer", "1//0", "arithmetic", "division by zero"),
        (
            "warmup_iters",
            "-1",
            "out-of-range",
            "`warmup_iters` must be from 0 to 9223372036854775807, not `-1`",
        ),
        ("bias", "yes", "wrong-kind", "`bias` takes True or False, not `yes`"),
        ("bias", "2", "wrong-kind", "`bias` takes True or False, not `2`"),
        ("dropout", "1", "out-of-range", "`dropout` must be at least 0 and below 1, not `1.0`"),
        (
            "beta2",
            "float('nan')",
            "out-of-range",
            "`beta2` must be at least 0 and below 1, not `nan`",
        ),
        (
            "learning_rate",
            "1e999",
            "out-of-range",
            "`learning_rate` must be finite and 0 or more, not `inf`",
        ),
        (
            "temperature",
            "-0.1",
            "out-of-range",
            "`temperature` must be finite and 0 or more, not `-0.1`",
        ),
        ("top_p", "0", "out-of-range", "`top_p` must be above 0 and at most 1, not `0.0`"),
        (
            "dtype",
            "fp8",
            "not-a-choice",
            "`dtype` must be `float32`, `bfloat16` or `float16`, not `fp8`",
        ),
        ("gelu", "relu", "not-a-choice", "`gelu` must be `exact` or `tanh`, not `relu`"),
        (
            "grad_checkpoint",
            "some",
            "not-a-choice",
            "`grad_checkpoint` must be `False`, `True` or `auto`, not `some`",
        ),
        (
            "init_from",
            " ",
            "not-a-choice",
            "`init_from` must be `scratch`, `resume`, `gpt2`, `gpt2-medium`, `gpt2-large`, `gpt2-xl` \
             or `PATH/TO/FOLDER`, not ``",
        ),
        (
            "device",
            "tpu",
            "not-a-choice",
            "`device` must be `auto`, `cpu`, `gpu`, `cuda`, `vulkan`, `metal` or `mps`, not `tpu`",
        ),
        (
            "memory_budget",
            "lots",
            "not-a-size",
            "`memory_budget` must be a size such as `12GB` or `11.5GiB`, not `lots`",
        ),
        (
            "eval_block_size",
            "2048",
            "eval-block-too-long",
            "`eval_block_size` 2048 exceeds `block_size` 1024",
        ),
        ("out_dir", "", "out-of-range", "`out_dir` must be a non-empty string, not ``"),
        ("batchsize", "8", "unknown-key", "unknown key `batchsize`; the nearest is `batch_size`"),
    ];
    for (key, text, kind, message) in table {
        let error = overridden(&[(key, text)]).unwrap_err();
        assert_eq!(
            (error.kind(), error.say(Lang::English).as_str()),
            (kind, message),
            "{key}={text}"
        );
        // An arithmetic error does not name the key, so the location does.
        let is_arithmetic = matches!(error, ConfigError::Python { .. });
        let place =
            if is_arithmetic { format!("command line, `--{key}`") } else { "command line".into() };
        assert_eq!(error.to_string(), format!("{place}: {message}"));
    }
}

#[test]
fn an_error_in_a_file_names_file_line_and_column() {
    let table = [
        ("n_layer = 2\nn_head = 'x'", "config.py:2:1: `n_head` takes an int, not `'x'`"),
        ("n_layer = 2\n\nn_head = 0", "config.py:3:1: `n_head` must be from 1 to 65536, not `0`"),
        ("wandb_run_name = None", "config.py:1:1: `wandb_run_name` takes a string, not `None`"),
        ("n_layer = 2 / 0", "config.py:1:13: division by zero"),
        ("n_layer = n_layers", "config.py:1:11: unknown name `n_layers`"),
        (
            "for i in range(3):\n  n_layer = i",
            "config.py:1:1: a `for` statement is not supported: \
             a config may contain only assignments of simple expressions",
        ),
    ];
    for (text, printed) in table {
        let error = read(text).and_then(|written| written.resolve()).unwrap_err();
        assert_eq!(error.to_string(), printed);
    }
}

#[test]
fn an_error_about_heads_lists_the_nearest_that_divide() {
    let mut written = read("n_embd = 512\nn_head = 8").unwrap();
    written.set("n_head", "12").unwrap();
    let error = written.resolve().unwrap_err();
    let expected = ConfigError::HeadsDoNotDivide {
        n_embd: 512,
        n_head: 12,
        heads: vec![4, 8, 16, 32],
        widths: vec![504, 516],
        place: Location::command_line(),
    };
    assert_eq!(error, expected);
    assert_eq!(
        error.say(Lang::English),
        "`n_embd` 512 is not a multiple of `n_head` 12: \
         `n_head` could be `4`, `8`, `16` or `32`, or `n_embd` `504` or `516`"
    );

    let error = overridden(&[("n_embd", "8")]).unwrap_err();
    let ConfigError::HeadsDoNotDivide { heads, widths, .. } = error else { panic!("{error}") };
    assert_eq!((heads, widths), (vec![4, 8], vec![12]));
}

#[test]
fn sizes_whose_product_overflows_are_refused() {
    let error = overridden(&[("batch_size", "2**20"), ("block_size", "2**24")]).unwrap_err();
    assert_eq!(error.kind(), "too-large");
    assert_eq!(
        error.say(Lang::English),
        "`gradient_accumulation_steps` × `batch_size` × `block_size` × `max_iters` overflows 64 bits"
    );
    let wide = overridden(&[
        ("n_embd", "2**20"),
        ("n_head", "1"),
        ("n_layer", "2**10"),
        ("block_size", "2**12"),
        ("batch_size", "2**20"),
        ("gradient_accumulation_steps", "1"),
        ("max_iters", "1"),
    ]);
    assert_eq!(wide.unwrap_err().kind(), "too-large");
    assert!(overridden(&[("max_iters", "10**12")]).is_ok());
}

#[test]
fn keys_without_effect_are_listed_if_they_were_changed() {
    assert_eq!(read(GPT2).unwrap().ignored(), ["wandb_log", "wandb_run_name"]);
    let mut written = Written::new();
    assert!(written.ignored().is_empty());
    written.set("compile", "True").unwrap(); // the default value is not listed
    assert!(written.ignored().is_empty());
    written.set("compile", "False").unwrap();
    assert_eq!(written.ignored(), ["compile"]);
}

#[test]
fn a_config_file_of_the_resolved_config_has_nanogpts_types() {
    let text = config(SHAKESPEARE_CHAR).to_python();
    for line in ["learning_rate = 0.001", "compile = True", "dropout = 0.2", "beta1 = 0.9"] {
        assert!(text.lines().any(|written| written == line), "{line} in\n{text}");
    }
    assert!(!text.contains("device") && !text.contains("dtype") && !text.contains("FitGPT"));
    assert_eq!(config(&text), config(SHAKESPEARE_CHAR));

    let ours =
        "grad_checkpoint = 'auto'\nmemory_budget = '12GB'\nstart = 'it\\'s'\ndtype = 'float32'";
    let text = config(ours).to_python();
    assert!(
        text.contains("\n# keys of FitGPT that nanoGPT does not have\ngrad_checkpoint = 'auto'\n")
    );
    assert_eq!(config(&text), config(ours));
}

#[test]
fn a_config_survives_conversion_to_pairs() {
    let config = config(FINETUNE);
    let back = Written::from_pairs("checkpoint", config.pairs()).unwrap();
    assert_eq!(back.resolve().unwrap(), config);

    let mut resumed = back.clone();
    resumed.set("batch_size", "2").unwrap();
    assert_eq!(resumed.resolve().unwrap().batch_size(), 2);

    let error = Written::from_pairs("checkpoint", [("n_layr", ConfigValue::Int(2))]).unwrap_err();
    assert_eq!(error.to_string(), "checkpoint: unknown key `n_layr`; the nearest is `n_layer`");
}

#[test]
fn a_change_is_checked_like_a_config() {
    let config = Config::default();
    let split = [("batch_size", 6_u32.into()), ("gradient_accumulation_steps", 80_u32.into())];
    let changed = config.with("fit", split).unwrap();
    assert_eq!(changed.effective_batch(), config.effective_batch());
    let error = config.with("fit", [("n_head", ConfigValue::Int(7))]).unwrap_err();
    assert_eq!((error.kind(), error.place()), ("heads-do-not-divide", &Location::of("fit")));
}

#[test]
fn the_table_and_the_config_have_the_same_keys_and_defaults() {
    let pairs = Config::default().pairs();
    assert_eq!(pairs.len(), KEYS.len());
    for (key, (name, value)) in KEYS.iter().zip(pairs) {
        assert_eq!((key.name, &key.default), (name, &value));
    }
}

fn any_key() -> impl Strategy<Value = &'static str> {
    prop::sample::select(KEYS.iter().map(|key| key.name).collect::<Vec<_>>())
}

/// Texts for any key: nonsense, and numbers at the edges of ranges.
fn any_text() -> impl Strategy<Value = String> {
    prop_oneof![
        ".{0,20}",
        any::<i64>().prop_map(|value| value.to_string()),
        any::<u32>().prop_map(|value| value.to_string()),
        any::<f64>().prop_map(|value| value.to_string()),
        "[0-9]{1,30}([.][0-9]{0,20})?([kKmMgGtT]i?)?[bB]?",
        "(cuda|gpu|cpu|'|\"|auto|True|-|2\\*\\*)[:0-9a-z']{0,6}",
        Just(String::new()),
    ]
}

proptest! {
    #[test]
    fn no_key_breaks_on_any_text(pairs in prop::collection::vec((any_key(), any_text()), 1..6)) {
        let mut written = Written::new();
        for (key, text) in &pairs {
            let _ = written.set(key, text);
            let file = format!("{key} = {text}");
            let _ = written.read_python("fuzz.py", &file, &FACTS);
        }
        match written.resolve() {
            Ok(config) => {
                // A config that resolves has products that fit 64 bits, and round-trips.
                let _ = (config.effective_batch(), config.eval_batch_size());
                let back = Written::from_pairs("pairs", config.pairs()).unwrap();
                prop_assert_eq!(&back.resolve().unwrap(), &config);
                let mut again = Written::new();
                again.read_python("again.py", &config.to_python(), &FACTS).unwrap();
                prop_assert_eq!(&again.resolve().unwrap(), &config);
            }
            Err(error) => prop_assert!(!error.say(Lang::English).is_empty()),
        }
    }

    #[test]
    fn every_size_that_resolves_has_an_effective_batch(
        batch in 0_u32..1 << 21, accumulation in any::<u32>(), block in 0_u32..1 << 25
    ) {
        let pairs = [
            ("batch_size", batch.into()),
            ("gradient_accumulation_steps", accumulation.into()),
            ("block_size", block.into()),
        ];
        if let Ok(config) = Written::from_pairs("test", pairs).unwrap().resolve() {
            let tokens = u128::from(batch) * u128::from(accumulation) * u128::from(block);
            prop_assert_eq!(u128::from(config.effective_batch().tokens), tokens);
        }
    }

    #[test]
    fn heads_that_are_proposed_divide(n_embd in 1_u32..=1 << 20, n_head in 1_u32..=1 << 16) {
        let pairs = [("n_embd", n_embd.into()), ("n_head", n_head.into())];
        let resolved = Written::from_pairs("test", pairs).unwrap().resolve();
        if let Err(ConfigError::HeadsDoNotDivide { heads, widths, .. }) = resolved {
            prop_assert!(!heads.is_empty() && !widths.is_empty());
            prop_assert!(heads.iter().all(|heads| n_embd.is_multiple_of(*heads)));
            prop_assert!(widths.iter().all(|width| width.is_multiple_of(n_head)));
        }
    }
}
