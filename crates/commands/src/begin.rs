//! What a training run starts from: random weights, its own checkpoint or nanoGPT's, or pretrained
//! weights.

use std::path::{Path, PathBuf};

use fitgpt_checkpoint as checkpoint;
use fitgpt_checkpoint::{Architecture, Checkpoint, Document, NanoGptStamp, RunPosition, Weights};
use fitgpt_config::{Config, ConfigValue, Family, InitFrom, Written};
use fitgpt_data::{
    Dataset,
    tokenizer::{TOKENIZER_FILE, Tokenizer},
};
use fitgpt_model::Model;
use fitgpt_program::Products;
use fitgpt_run::{pretrained, setup};
use fitgpt_say::{Lang, Sentence};
use serde_json::Map;

use super::{Failure, origin};
use crate::words::{ranks, report, train as words};

/// The weights that a run starts with.
pub enum Start {
    /// Random weights.
    Scratch,
    /// The checkpoint in `out_dir`, with optimizer states and position.
    Resume(Checkpoint, Box<Document>),
    /// The weights in a folder.
    Pretrained(Weights, PathBuf),
}

impl Start {
    /// The contents of `config.json`. Tokenizer and special tokens are taken over from the weights,
    /// if they have any, unless a resumed run takes over the data's.
    pub fn architecture(
        &self,
        config: &Config,
        vocab: u32,
        data: &Dataset,
        takes_vocabulary: bool,
    ) -> Architecture {
        let from_data = data.tokenizer().within(vocab);
        let (tokenizer, special_tokens) = match self {
            Self::Resume(checkpoint, _) if checkpoint.nanogpt().is_none() && !takes_vocabulary => {
                let there = checkpoint.architecture();
                (there.tokenizer.clone(), there.special_tokens.clone())
            }
            Self::Pretrained(weights, _) => {
                let there = weights.architecture();
                let is_gpt2 = there.model.family == Family::Gpt2;
                let tokenizer = match from_data {
                    _ if self.tokenizer_folder(data).is_some() && !is_gpt2 => None,
                    // Data without a vocabulary has GPT-2's tokens only if the model is a GPT-2.
                    Tokenizer::Gpt2 if !is_gpt2 => Some(Tokenizer::Ids),
                    tokenizer => Some(tokenizer),
                };
                (tokenizer, there.special_tokens.clone())
            }
            _ if self.tokenizer_folder(data).is_some() => (None, Map::new()),
            Self::Scratch | Self::Resume(..) => (Some(from_data), Map::new()),
        };
        Architecture { tokenizer, special_tokens, ..setup::architecture(config, vocab) }
    }

    /// The `ckpt.pt` in the run's folder, which the run continues or leaves alone.
    pub fn nanogpt(&self, folder: &Path) -> Result<Option<NanoGptStamp>, Failure> {
        Ok(match self {
            Self::Resume(checkpoint, _) => checkpoint.nanogpt_stamp().cloned(),
            Self::Scratch | Self::Pretrained(..) => checkpoint::nanogpt_stamp(folder)?,
        })
    }

    /// The folder whose tokenizer files are copied to the run's folder: the data's, if it has any,
    /// else the weights'. Data with its own vocabulary uses neither.
    pub fn tokenizer_folder<'a>(&'a self, data: &'a Dataset) -> Option<&'a Path> {
        let has_file = |folder: &Path| folder.join(TOKENIZER_FILE).is_file();
        if has_file(data.folder()) {
            return Some(data.folder());
        }
        match self {
            Self::Pretrained(_, folder) if !data.has_table() && has_file(folder) => Some(folder),
            _ => None,
        }
    }
}

/// A config and what it starts from.
pub struct StartingPoint {
    /// The config, with the keys that the weights determine.
    pub config: Config,
    /// The weights.
    pub start: Start,
}

/// Whether a step is split into micro-batches as in the config, or as in the checkpoint's run.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum StepSplit {
    /// As in the config.
    AsWritten,
    /// As in the run that is resumed.
    AsBefore,
}

impl StartingPoint {
    /// Opens the weights that the config names, and takes over the keys that they determine.
    /// `now` is what was written now, for a run that is resumed.
    pub fn of(
        written: &Written,
        now: Option<&Written>,
        split: StepSplit,
        note: fn(&Sentence),
    ) -> Result<Self, Failure> {
        let config = written.resolve()?;
        match config.init_from() {
            InitFrom::Scratch => Ok(Self { config, start: Start::Scratch }),
            // The checkpoint's config, overridden only by what was written now.
            InitFrom::Resume => resume(&config, now.unwrap_or(written), split, note),
            InitFrom::Pretrained(name) => pretrained(&name.clone(), config),
        }
    }

    /// Whether it continues a run bit for bit.
    pub fn is_resumed(&self) -> bool {
        matches!(self.start, Start::Resume(..))
    }

    /// Refuses weights of another shape, naming the first key that differs. Only the weights of
    /// published models can differ: their shape is known by name, before the files are opened.
    pub fn check_shape(&self, vocab: u32) -> Result<(), Failure> {
        let (there, folder) = match &self.start {
            Start::Scratch => return Ok(()),
            Start::Resume(checkpoint, _) => {
                (checkpoint.architecture(), setup::out_dir(&self.config))
            }
            Start::Pretrained(weights, folder) => (weights.architecture(), folder.clone()),
        };
        let here = Model::new(&self.config, vocab);
        match difference(&there.model, &here, self.is_resumed()) {
            None => Ok(()),
            Some((key, there, here)) => {
                let message = words::other_shape(folder.display(), key, there, here);
                let failure = Failure::new("checkpoint", message);
                Err(if self.is_resumed() {
                    failure.hint(words::leave_the_key_out())
                } else {
                    failure
                })
            }
        }
    }
}

/// The first key in which the shapes of two models differ, with its value in each. Pretrained
/// weights may have more positions than `block_size`.
fn difference(
    there: &Model,
    here: &Model,
    is_resumed: bool,
) -> Option<(&'static str, String, String)> {
    let block = if is_resumed { there.block } else { here.block.min(there.block) };
    let size = |key, there: u32, here: u32| (key, there.to_string(), here.to_string());
    let flag = |key, there: bool, here: bool| (key, there.to_string(), here.to_string());
    let attention_bias = |model: &Model| (model.biases.qkv, model.biases.attention_out);
    let all = [
        ("family", there.family.to_string(), here.family.to_string()),
        size("n_layer", there.layers, here.layers),
        size("n_head", there.heads, here.heads),
        size("n_embd", there.channels, here.channels),
        size("block_size", block, here.block),
        size("vocab_size", there.vocab, here.vocab),
        flag("bias", there.biases.norm, here.biases.norm),
        size("n_kv_head", there.kv_heads, here.kv_heads),
        size("head_dim", there.head_channels, here.head_channels),
        size("ffn_dim", there.mlp_channels, here.mlp_channels),
        flag("tie_embeddings", there.is_tied, here.is_tied),
        flag("attention_bias", true, attention_bias(there) == attention_bias(here)),
        flag("mlp_bias", there.biases.mlp, here.biases.mlp),
    ];
    all.into_iter().find(|(_, there, here)| there != here)
}

fn resume(
    config: &Config,
    written: &Written,
    split: StepSplit,
    note: fn(&Sentence),
) -> Result<StartingPoint, Failure> {
    let folder = setup::out_dir(config);
    let checkpoint = Checkpoint::choose(&folder, config.resume_from())?;
    let document = match checkpoint.nanogpt() {
        Some(run) => Document::of_nanogpt(run, checkpoint.description()),
        None => checkpoint.document()?,
    };
    let source = format!("the checkpoint in {}", folder.display());
    let there = Written::from_pairs(&source, document.config.clone())?;
    let mut all = there.clone();
    all.merge(written.clone());
    let folder = folder.display().to_string();
    let before = there.resolve()?;
    let mut config = all.resolve()?.with("command line", [("out_dir", folder.as_str().into())])?;
    if config.optimizer() != before.optimizer() {
        let (there, here) = (before.optimizer().name(), config.optimizer().name());
        let message = words::other_shape(folder, "optimizer", there, here);
        return Err(Failure::new("checkpoint", message).hint(words::leave_the_key_out()));
    }
    // The order of sums is part of the run, so `lanes` is kept. Earlier versions had one lane.
    let lanes = before.lanes().max(1);
    if checkpoint.nanogpt().is_none() {
        if config.lanes() != 0 && config.lanes() != lanes {
            note(&ranks::lanes_of_checkpoint(lanes, config.lanes()));
        }
        config = config.with("the checkpoint", [("lanes", lanes.into())])?;
    }
    config = with_products(config, &document, checkpoint.nanogpt().is_some(), note)?;
    if split == StepSplit::AsBefore {
        config = with_split(&config, &before)?;
    }
    Ok(StartingPoint { config, start: Start::Resume(checkpoint, Box::new(document)) })
}

/// The config with the arithmetic of the checkpoint's products, unless another was written now.
/// Checkpoints of earlier versions do not have the key: their factors were float32.
fn with_products(
    config: Config,
    document: &Document,
    is_nanogpt: bool,
    note: fn(&Sentence),
) -> Result<Config, Failure> {
    const KEY: &str = "matmul_dtype";
    if is_nanogpt {
        return Ok(config);
    }
    let Some(there) = document.config.get(KEY) else {
        let change = [(KEY, Products::Float32.name().into())];
        let is_written = config.matmul_dtype().is_some();
        return Ok(if is_written { config } else { config.with("the checkpoint", change)? });
    };
    let name = config.matmul_dtype().map(Products::name);
    if let (ConfigValue::Str(there), Some(here)) = (there, name)
        && there != here
    {
        note(&words::other_products(there, here));
    }
    Ok(config)
}

/// The config with the split of an earlier run, if its steps have as many sequences: the split
/// determines the order of sums, and an earlier `--fit` may have chosen it.
fn with_split(config: &Config, before: &Config) -> Result<Config, Failure> {
    if config.effective_batch() != before.effective_batch() {
        return Ok(config.clone());
    }
    let changes = [
        ("batch_size", before.batch_size().into()),
        ("gradient_accumulation_steps", before.gradient_accumulation_steps().into()),
        ("eval_batch_size", config.eval_batch_size().into()),
    ];
    Ok(config.with("the checkpoint", changes)?)
}

fn pretrained(name: &str, config: Config) -> Result<StartingPoint, Failure> {
    let folder = pretrained::find(name).map_err(|not_here| origin::missing(name, &not_here))?;
    let folder = checkpoint::choose(&folder, config.resume_from())?.path;
    let weights = Weights::open(&folder)?;
    Ok(StartingPoint { config, start: Start::Pretrained(weights, folder) })
}

/// The folder that a config samples from: its own checkpoint, or the weights that it names; or
/// nanoGPT's file.
pub fn weights_dir(config: &Config) -> Result<PathBuf, Failure> {
    let from = config.resume_from();
    Ok(match config.init_from() {
        InitFrom::Scratch | InitFrom::Resume => {
            let chosen = checkpoint::choose(&setup::out_dir(config), from)?.path;
            checkpoint::weights_dir(&chosen)
        }
        InitFrom::Pretrained(name) => {
            let found = pretrained::find(name);
            let found = found.map_err(|not_here| origin::missing(name, &not_here))?;
            checkpoint::choose(&found, from)?.path
        }
    })
}

/// The lines printed about the weights that a run starts from.
pub fn introduction(lang: Lang, start: &Start, config: &Config) -> String {
    if let Start::Resume(checkpoint, document) = start
        && checkpoint.nanogpt().is_some()
    {
        let RunPosition { step, updates, .. } = document.position;
        return report::continues_nanogpt(lang, step, updates) + "\n";
    }
    let Start::Pretrained(weights, folder) = start else { return String::new() };
    let there = weights.architecture();
    let Model { layers, heads, channels, vocab, block, .. } = there.model;
    let folder = folder.display();
    let mut text = report::begins_from(lang, folder, layers, heads, channels, vocab) + "\n";
    if config.block_size() < block {
        text += &(report::cropped(lang, config.block_size(), block) + "\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use fitgpt_checkpoint::Scaler;

    use super::*;

    fn resumed(stored: Option<&str>, written: Option<Products>) -> Option<Products> {
        let position = RunPosition {
            step: 3,
            updates: 3,
            best_val_loss: None,
            best_step: None,
            scaler: Scaler::NONE,
        };
        let config = Config::default();
        let mut document = Document::new(&position, &config, None, None);
        match stored {
            Some(name) => document.config.insert("matmul_dtype".to_owned(), name.into()),
            None => document.config.remove("matmul_dtype"),
        };
        let written = written.map(|it| ("matmul_dtype", it.name().into()));
        // What `resume` merges: the checkpoint's keys, then those that were written.
        let there = stored.map(|name| ("matmul_dtype", name.into()));
        let config = config.with("test", there.into_iter().chain(written)).unwrap();
        with_products(config, &document, false, |_| {}).ok().unwrap().matmul_dtype()
    }

    #[test]
    fn a_resumed_run_keeps_its_factors_unless_others_are_written() {
        let [float32, bfloat16] = Products::ALL;
        assert_eq!(resumed(Some("bfloat16"), None), Some(bfloat16));
        assert_eq!(resumed(Some("bfloat16"), Some(float32)), Some(float32));
        // Earlier versions had float32 factors and no key.
        assert_eq!(resumed(None, None), Some(float32));
        assert_eq!(resumed(None, Some(bfloat16)), Some(bfloat16));
    }
}
