//! The run of the log: its config, its model and its PyTorch options.

use fitgpt_config::{
    Config, ConfigError, ConfigValue, Family, GPT2_VOCAB, PADDED_VOCAB, Precision, Written,
};
use fitgpt_fit::{device::CardSpec, torch::TorchOptions};
use fitgpt_model::Model;

use crate::{
    facts::{AssumedRun, Domain},
    parse::{Log, Wording},
};

/// Where the config comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ConfigOrigin {
    /// Given by the caller.
    Given,
    /// Shown by the log, which may show that the defaults were used.
    Log,
    /// The log is nanoGPT's but shows no config, so the defaults are assumed.
    Defaults,
}

/// A training run of nanoGPT.
#[derive(Clone, Debug)]
pub(crate) struct TrainingRun {
    pub(crate) config: Config,
    pub(crate) model: Model,
    pub(crate) options: TorchOptions,
    pub(crate) source: ConfigOrigin,
    /// Whether the config sets `dtype`.
    pub(crate) is_dtype_written: bool,
    /// Whether this PyTorch may be too old for fused attention.
    pub(crate) may_be_unfused: bool,
}

/// nanoGPT's default tokens per sequence.
const BLOCK: u64 = 1024;

impl TrainingRun {
    /// The run of the log, with the caller's config if given. `None` if neither shows a run.
    pub(crate) fn find(
        log: &Log,
        given: Option<&Written>,
        gpu: Option<&CardSpec>,
        domain: Domain,
    ) -> Result<Option<Self>, ConfigError> {
        let progress = &log.progress;
        let says_nothing = !progress.is_nanogpt && progress.overrides.is_empty();
        if given.is_none() && (says_nothing || domain != Domain::NanoGpt) {
            return Ok(None);
        }
        let mut written = Written::new();
        for (key, text) in &progress.overrides {
            // The echo may be cut off or from another script: ignore values that cannot be read.
            let _ = written.set(key, text);
        }
        if let Some(given) = given {
            written.merge(given.clone());
        }
        let pretrained = progress.pretrained.as_ref().map(|(name, _)| name.clone());
        let pretrained = pretrained.or_else(|| match written.get("init_from") {
            Some(ConfigValue::Str(name)) => Some(name.to_string()),
            _ => None,
        });
        if let Some([batch, seq]) = log.setup.batch_by_seq.filter(|_| given.is_none()) {
            for (key, value) in [("batch_size", batch), ("block_size", seq)] {
                if written.get(key).is_none() {
                    let _ = written.set(key, &value.to_string());
                }
            }
        }
        if given.is_none() {
            for (key, value) in split_of_logits(log, &written) {
                let _ = written.set(key, &value.to_string());
            }
        }
        let published =
            pretrained.and_then(|name| super::infer::gpt2_sizes().find(|size| size.id == name));
        if let Some(size) = published {
            let sizes = [("n_layer", size.layers), ("n_head", size.heads), ("n_embd", size.width)];
            for (key, value) in sizes {
                written.write(key, value.into(), fitgpt_config::Location::of("init_from"))?;
            }
            written.write("bias", true.into(), fitgpt_config::Location::of("init_from"))?;
        }
        let config = written.resolve()?;
        let vocab = match (config.vocab_size(), progress.vocab) {
            (0, Some(found)) => found,
            (0, None) if published.is_some() => GPT2_VOCAB,
            (0, None) => PADDED_VOCAB,
            (written, _) => written,
        };
        // The PyTorch programs are GPT-2 only, so no run of another family is assumed.
        if config.family() != Family::Gpt2 {
            return Ok(None);
        }
        let model = Model::new(&config, vocab.max(1));
        if !is_countable(&config, &model) || (given.is_none() && is_refuted(log, &config, &model)) {
            return Ok(None);
        }
        let is_old = log.setup.torch.is_some_and(|[major, _]| major < 2);
        let may_be_unfused = is_old
            || progress.slow_attention
            || log.message.as_ref().is_some_and(|m| m.wording == Wording::Torch1);
        let options = options(log, &config, gpu);
        let source = match given {
            Some(_) => ConfigOrigin::Given,
            None if shows_config(log) => ConfigOrigin::Log,
            None => ConfigOrigin::Defaults,
        };
        let is_dtype_written =
            written.get("dtype").is_some_and(|value| *value != ConfigValue::None);
        Ok(Some(Self { config, model, options, source, is_dtype_written, may_be_unfused }))
    }

    /// The assumption, if the log does not show the config.
    pub(crate) fn supposition(&self) -> Option<AssumedRun> {
        (self.source == ConfigOrigin::Defaults).then(|| AssumedRun {
            model: "nanoGPT's defaults",
            batch_size: self.options.batch,
            block_size: self.options.seq,
            vocab_size: self.model.vocab.into(),
        })
    }

    /// Weights, gradients and Adam's moments.
    pub(crate) fn static_bytes(&self) -> u64 {
        16 * self.model.parameter_count()
    }
}

/// The split of a step, if the log names the logits: their rows are the tokens of a micro-batch, and
/// nanoGPT prints the tokens of a step. Keys that are written stay.
fn split_of_logits(log: &Log, written: &Written) -> Vec<(&'static str, u64)> {
    let vocab = u64::from(log.progress.vocab.unwrap_or(PADDED_VOCAB));
    let Some([rows, columns]) = log.shape.as_ref().map(|shape| shape.axes.as_slice()) else {
        return Vec::new();
    };
    let block = match written.get("block_size") {
        Some(ConfigValue::Int(block)) => u64::try_from(*block).unwrap_or(0),
        _ => BLOCK,
    };
    let is_known =
        written.get("batch_size").is_some() || log.progress.tokens_per_iteration.is_none();
    if *columns != vocab || block == 0 || is_known || *rows == 0 || !rows.is_multiple_of(block) {
        return Vec::new();
    }
    let mut split = vec![("batch_size", rows / block)];
    let tokens = log.progress.tokens_per_iteration.filter(|tokens| tokens.is_multiple_of(*rows));
    if let Some(tokens) = tokens.filter(|_| written.get("gradient_accumulation_steps").is_none()) {
        split.push(("gradient_accumulation_steps", tokens / rows));
    }
    split
}

/// Whether the log shows the config. It also does if it has no overrides but prints the tokens per
/// iteration and the parameters, which have been compared with the defaults.
fn shows_config(log: &Log) -> bool {
    let progress = &log.progress;
    log.setup.batch_by_seq.is_some()
        || !progress.overrides.is_empty()
        || progress.pretrained.is_some()
        || progress.tokens_per_iteration.is_some()
            && progress.parameters_hundredth_millions.is_some()
}

/// Whether nanoGPT's output contradicts the config, because the script was modified.
fn is_refuted(log: &Log, config: &Config, model: &Model) -> bool {
    let progress = &log.progress;
    let positions = u64::from(model.block) * u64::from(model.channels); // not in nanoGPT's count
    let count = model.parameter_count().saturating_sub(positions);
    let is_larger = |hundredths: u64| {
        let printed = hundredths.saturating_mul(10_000);
        printed.abs_diff(count) > count / 100 + 10_000
    };
    let sequences = u64::from(config.batch_size()) * u64::from(config.block_size());
    // Versions of the script differ in how they divide accumulation among ranks.
    let is_odd = |tokens: u64| !tokens.is_multiple_of(sequences.max(1));
    progress.parameters_hundredth_millions.is_some_and(is_larger)
        || progress.tokens_per_iteration.is_some_and(is_odd)
}

/// Whether its programs are small enough to build and their sizes cannot overflow. Logs are
/// untrusted: four billion layers must cost nothing.
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

fn options(log: &Log, config: &Config, gpu: Option<&CardSpec>) -> TorchOptions {
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
