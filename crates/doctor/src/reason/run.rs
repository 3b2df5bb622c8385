//! Which run this was: its config, its model, and how PyTorch ran it.

use fitgpt_plan::{
    config::{Config, ConfigError, Precision, Value, Written},
    device::Gpu,
    model::Model,
    torch::TorchOptions,
};

use crate::parse::{Log, Wording};

/// Where the config comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// The caller has it.
    Given,
    /// The log shows it, or shows that nothing was changed.
    Log,
}

/// A run.
#[derive(Clone, Debug)]
pub(crate) struct Run {
    pub(crate) config: Config,
    pub(crate) model: Model,
    pub(crate) options: TorchOptions,
    pub(crate) source: Source,
    /// Whether the config says in which type it computes.
    pub(crate) is_dtype_written: bool,
    /// Whether this PyTorch may be too old for fused attention.
    pub(crate) may_be_unfused: bool,
}

/// nanoGPT's vocabulary where its data name none.
const VOCAB: u32 = 50304;

impl Run {
    /// The run of the log, with what the caller knows of its config. `None` where neither says
    /// anything.
    pub(crate) fn find(
        log: &Log,
        given: Option<&Written>,
        gpu: Option<&Gpu>,
    ) -> Result<Option<Self>, ConfigError> {
        let progress = &log.progress;
        if given.is_none() && !progress.is_nanogpt && progress.overrides.is_empty() {
            return Ok(None);
        }
        let mut written = Written::new();
        for (key, text) in &progress.overrides {
            // What an echo shows may be cut or be another script's: a value that cannot be read
            // is as good as none.
            let _ = written.set(key, text);
        }
        if let Some(given) = given {
            written.merge(given.clone());
        }
        let pretrained = progress.pretrained.as_ref().map(|(name, _)| name.clone());
        let pretrained = pretrained.or_else(|| match written.get("init_from") {
            Some(Value::Str(name)) => Some(name.to_string()),
            _ => None,
        });
        let published = pretrained.and_then(|name| published(&name));
        if let Some([layers, heads, channels]) = published {
            for (key, value) in [("n_layer", layers), ("n_head", heads), ("n_embd", channels)] {
                written.write(key, value.into(), fitgpt_plan::config::Place::of("init_from"))?;
            }
            written.write("bias", true.into(), fitgpt_plan::config::Place::of("init_from"))?;
        }
        let config = written.resolve()?;
        let vocab = match (config.vocab_size(), progress.vocab) {
            (0, Some(found)) => found,
            (0, None) if published.is_some() => 50257,
            (0, None) => VOCAB,
            (written, _) => written,
        };
        let model = Model::new(&config, vocab.max(1));
        if !is_countable(&config, &model) {
            return Ok(None);
        }
        let may_be_unfused = progress.slow_attention
            || log.message.as_ref().is_some_and(|m| m.wording == Wording::Torch1);
        let options = options(log, &config, gpu);
        let source = if given.is_some() { Source::Given } else { Source::Log };
        let is_dtype_written = written.get("dtype").is_some_and(|value| *value != Value::None);
        Ok(Some(Self { config, model, options, source, is_dtype_written, may_be_unfused }))
    }

    /// Weights, gradients and Adam's moments: what a step needs before its first activation.
    pub(crate) fn static_bytes(&self) -> u64 {
        16 * self.model.parameter_count()
    }
}

/// Whether its programs can be written and their bytes added up. A log is a stranger's text: four
/// billion layers in it must cost nothing.
fn is_countable(config: &Config, model: &Model) -> bool {
    const LAYERS: u32 = 512;
    const BYTES: u64 = 1 << 56;
    let tokens = u64::from(config.batch_size().max(config.eval_batch_size()))
        .checked_mul(config.block_size().into());
    let width = u64::from(model.channels) * 16 + u64::from(model.vocab);
    let scores = u64::from(model.heads) * u64::from(model.block);
    let per_token = width.saturating_add(scores).saturating_mul(u64::from(model.layers) * 64);
    let activations = tokens.and_then(|tokens| tokens.checked_mul(per_token));
    let per_layer = u64::from(model.channels).saturating_mul(u64::from(model.channels) * 12);
    let embedding = u64::from(model.channels) * (u64::from(model.vocab) + u64::from(model.block));
    let state = per_layer.saturating_mul(model.layers.into()).saturating_add(embedding);
    model.layers <= LAYERS
        && activations.is_some_and(|bytes| bytes < BYTES)
        && state.saturating_mul(64) < BYTES
}

/// Layers, heads and channels of OpenAI's weights.
fn published(name: &str) -> Option<[u32; 3]> {
    match name {
        "gpt2" => Some([12, 12, 768]),
        "gpt2-medium" => Some([24, 16, 1024]),
        "gpt2-large" => Some([36, 20, 1280]),
        "gpt2-xl" => Some([48, 25, 1600]),
        _ => None,
    }
}

fn options(log: &Log, config: &Config, gpu: Option<&Gpu>) -> TorchOptions {
    let half = match gpu {
        Some(gpu) if !gpu.has_bf16() => Precision::Float16,
        _ => Precision::Bfloat16,
    };
    let world = u64::from(log.workers.max(log.progress.workers).max(1));
    let of_config = TorchOptions::from_config(config, config.precision_or(half));
    TorchOptions {
        accumulation: (of_config.accumulation / world).max(1),
        fused_attention: !log.progress.slow_attention,
        ddp_world: world,
        fused_adam: log.progress.fused_adam.unwrap_or(true),
        resumed: of_config.resumed || log.progress.resuming.is_some(),
        ..of_config
    }
}
