//! Config files and keys as a user gives them, and the presets that are built in.

use std::{
    io::ErrorKind,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use fitgpt_config::{Config, ConfigValue, Location, MachineFacts, Written};
use fitgpt_files::os;
use fitgpt_fit::fit::{self, FitOption, Patch};

use super::{
    Failure, origin,
    target::{EngineChoice, PlanTarget},
};
use crate::words::config_file as words;

/// Far more than any config, which has a few kilobytes.
const MAX_BYTES: u64 = 1 << 20;

/// The presets that are built in, by file name.
const PRESETS: [(&str, &str); 10] = [
    ("stories.py", include_str!("../../../config/stories.py")),
    ("nanogpt.py", include_str!("../../../config/nanogpt.py")),
    ("train_shakespeare_char.py", include_str!("../../../config/train_shakespeare_char.py")),
    (
        "train_shakespeare_char_cpu.py",
        include_str!("../../../config/train_shakespeare_char_cpu.py"),
    ),
    ("train_gpt2.py", include_str!("../../../config/train_gpt2.py")),
    ("train_openwebtext.py", include_str!("../../../config/train_openwebtext.py")),
    ("train_fineweb.py", include_str!("../../../config/train_fineweb.py")),
    ("llama_stories.py", include_str!("../../../config/llama_stories.py")),
    ("train_smollm_135m.py", include_str!("../../../config/train_smollm_135m.py")),
    ("finetune_shakespeare.py", include_str!("../../../config/finetune_shakespeare.py")),
];

/// The config of `train` and `sample` if no config file is given.
pub const DEFAULT_PRESET: &str = "config/stories.py";

/// A preset that sets no key: nanoGPT's defaults, which all other commands use if no config file is
/// given.
pub const DEFAULTS: &str = "config/nanogpt.py";

/// The built-in presets: their paths as commands accept them, and their texts.
pub fn presets() -> impl Iterator<Item = (String, &'static str)> {
    PRESETS.iter().map(|(name, text)| (format!("config/{name}"), *text))
}

/// The text of a config file, or of the built-in preset of this name if there is no such file.
pub fn text_of(path: &Path) -> Result<String, Failure> {
    let built_in = || {
        let name = PathBuf::from(path.file_name()?);
        let is_preset_path =
            path.parent().is_none_or(|p| p.ends_with("config") || p == Path::new(""));
        let preset = PRESETS.iter().find(|(preset, _)| Path::new(preset) == name);
        preset.filter(|_| is_preset_path).map(|(_, text)| (*text).to_owned())
    };
    match os::read_text(path, MAX_BYTES) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == ErrorKind::InvalidData => {
            Err(Failure::unreadable_for(path, &words::not_utf8()))
        }
        Err(error) if error.kind() == ErrorKind::NotFound => built_in().ok_or_else(|| {
            let names: Vec<_> = presets().map(|(name, _)| name).collect();
            Failure::unreadable(path, &error).hint(words::presets_are(names.join(", ")))
        }),
        Err(error) => Err(Failure::unreadable(path, &error)),
    }
}

/// The facts about this machine that a config's Python may use.
pub fn facts() -> MachineFacts {
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    MachineFacts {
        now_seconds: now.map_or(0.0, |now| now.as_secs_f64()),
        cuda_is_available: false,
        bf16_is_supported: false,
    }
}

/// A part of a config; later parts win.
#[derive(Clone, Copy, Debug)]
pub enum ConfigPart<'a> {
    /// A file in nanoGPT's Python.
    File(&'a str),
    /// A key and its value as text.
    Key(&'static str, &'a str),
}

/// The keys of `parts`. Without a file among them, `preset` comes first. If they name weights to
/// start from, the keys of those weights apply on top; `fetch` may get them before.
pub fn read(
    parts: &[ConfigPart<'_>],
    preset: Option<&str>,
    fetch: impl FnOnce(&Written) -> Result<(), Failure>,
) -> Result<Written, Failure> {
    let has_file = parts.iter().any(|part| matches!(part, ConfigPart::File(_)));
    let mut written = Written::new();
    let facts = facts();
    if let Some(preset) = preset.filter(|_| !has_file) {
        written.read_python(preset, &text_of(Path::new(preset))?, &facts)?;
    }
    for part in parts {
        match *part {
            ConfigPart::File(path) => {
                let read = text_of(Path::new(path))
                    .and_then(|text| Ok(written.read_python(path, &text, &facts)?));
                read.map_err(|failure| of_a_text(Path::new(path)).unwrap_or(failure))?;
            }
            ConfigPart::Key(key, value) => written.set(key, value)?,
        }
    }
    if let Some(preset) = preset.filter(|_| !has_file) {
        follow_dataset(&mut written, preset)?;
    }
    fetch(&written)?;
    origin::describe(written, preset)
}

/// The failure if a file that is no config has the extension of a text.
fn of_a_text(path: &Path) -> Option<Failure> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    let is_text = path.is_file() && fitgpt_prepare::EXTENSIONS.contains(&extension.as_str());
    is_text.then(|| {
        Failure::new("config", words::not_a_config(path.display()))
            .hint(words::prepare_it(path.display()))
    })
}

/// A dataset other than the preset's gets its own `out_dir`, unless one is set, so that its run
/// does not collide with the preset's.
fn follow_dataset(written: &mut Written, preset: &str) -> Result<(), Failure> {
    let is_presets = |key: &str| written.place_of(key).is_some_and(|p| p.source == preset);
    if is_presets("dataset") || !is_presets("out_dir") {
        return Ok(());
    }
    let Some(ConfigValue::Str(dataset)) = written.get("dataset") else { return Ok(()) };
    let Some(name) = Path::new(dataset.as_ref()).file_name() else { return Ok(()) };
    let folder = format!("out-{}", name.to_string_lossy());
    Ok(written.write("out_dir", folder.into(), Location::of(preset))?)
}

/// A config with the files that it was read from: what the next command starts from.
#[derive(Clone, Debug)]
pub struct ConfigSource {
    /// The files, as commands name them.
    pub files: Vec<String>,
    /// Everything that was written, in files and elsewhere.
    pub written: Written,
}

impl ConfigSource {
    /// The command that trains `config` on `target`, on `ranks` ranks if there are several.
    pub fn train_command(
        &self,
        target: &PlanTarget,
        config: &Config,
        ranks: Option<u32>,
    ) -> String {
        let changes = target.required_changes(config);
        let patches = Patch::of_config(config);
        let mut commands = self.commands(target.engine, &changes, &patches);
        if let (Some(ranks), Some(last)) = (ranks, commands.last_mut()) {
            *last = match (target.engine, last.strip_prefix("python ")) {
                (EngineChoice::Torch, Some(script)) => {
                    format!("torchrun --standalone --nproc_per_node={ranks} {script}")
                }
                _ => format!("mpirun -np {ranks} {last}"),
            };
        }
        commands.join(" && ")
    }

    /// The commands that train with an option of `fit`.
    pub fn commands_of(&self, engine: EngineChoice, option: &FitOption) -> Vec<String> {
        self.commands(engine, &option.changes, &option.patches)
    }

    fn commands(
        &self,
        engine: EngineChoice,
        changes: &[fit::Change],
        patches: &[Patch],
    ) -> Vec<String> {
        let Self { files, written } = self;
        match engine {
            // Without a file, `train` would use the built-in stories preset.
            EngineChoice::Fitgpt if files.is_empty() => {
                vec![fit::fitgpt_command(&[DEFAULTS.to_owned()], written, changes)]
            }
            EngineChoice::Fitgpt => vec![fit::fitgpt_command(files, written, changes)],
            EngineChoice::Torch => fit::nanogpt_commands(files, written, changes, patches),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_is_found_without_its_file() {
        let folder = Path::new("no such folder/config/stories.py");
        assert!(text_of(folder).is_ok());
        assert!(text_of(Path::new("elsewhere/stories.py")).is_err());
    }
}
