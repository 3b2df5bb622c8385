//! A trained model continues a prompt.

use std::{path::Path, time::Instant};

use fitgpt_checkpoint::{NanoGptRun, PositionRows, Tensors, Weights, weights_dir};
use fitgpt_config::Config;
use fitgpt_data::tokenizer::Tokenizer;
use fitgpt_model::model;
use fitgpt_program::units::Bytes;
use fitgpt_run::{
    device::Runner,
    sample::{Choice, ContextWindow, Sampler},
    setup::Sampling,
    stop::StopFlag,
};

use super::{Failure, prompt};

/// A model with its prompt; nothing is planned yet.
pub struct PromptedModel {
    config: Config,
    weights: Weights,
    prompt: Vec<u32>,
    /// The meaning of tokens.
    pub tokenizer: Tokenizer,
    /// The device.
    pub runner: Runner,
}

/// A model in its arena.
pub struct OpenModel {
    config: Config,
    prompt: Vec<u32>,
    sampler: Sampler,
    /// Samples that are made together.
    batch: u64,
    arena_bytes: Bytes,
    block: u32,
}

/// What happens while samples are made.
#[derive(Clone, Copy, Debug)]
pub enum SampleEvent<'a> {
    /// A batch begins with the prompt. Its first sample gets these tokens, and then more.
    Begun(&'a [u32]),
    /// The next token of the batch's first sample.
    Token(u32),
    /// A sample is complete.
    Complete(&'a [u32]),
}

/// All samples.
#[derive(Clone, Debug)]
pub struct MadeSamples {
    /// With the prompt.
    pub texts: Vec<Vec<u32>>,
    /// The length of the prompt.
    pub prompt_tokens: usize,
    /// Generated, in all samples.
    pub tokens_per_s: f64,
    /// The arena.
    pub arena_bytes: Bytes,
    /// How often the KV cache was filled again.
    pub refills: u64,
    /// The model's context.
    pub block: u32,
}

impl PromptedModel {
    /// The weights in `folder`, and the prompt of `config`.
    pub fn of(config: &Config, folder: &Path) -> Result<Self, Failure> {
        let weights = Weights::open(folder)?;
        let architecture = weights.architecture();
        let dataset = weights.nanogpt().and_then(NanoGptRun::dataset);
        let tokenizer = prompt::tokenizer(config, dataset, folder, architecture)?;
        let prompt = prompt::prompt(config, &tokenizer, architecture.model.vocab)?;
        let config = with_shape(config, &weights, prompt.len())?;
        let runner = Runner::of(&config)?;
        Ok(Self { config, weights, prompt, tokenizer, runner })
    }

    /// One sample of a run that has just ended in `out_dir`.
    pub fn after_training(config: &Config, out_dir: &Path) -> Result<Self, Failure> {
        let tokens = i64::from(config.max_new_tokens().min(prompt::MAX_TOKENS_OF_A_RUN));
        let one = [("num_samples", 1i64.into()), ("max_new_tokens", tokens.into())];
        Self::of(&config.with("train", one)?, &weights_dir(out_dir))
    }

    /// How many samples will be made.
    pub fn n_samples(&self) -> u64 {
        self.config.num_samples().into()
    }

    /// Plans within the budget, allocates the arena and loads the weights; `None` if not even one
    /// sample fits.
    pub fn open(&mut self, window: ContextWindow) -> Result<Option<OpenModel>, Failure> {
        let Self { config, weights, prompt, runner, .. } = self;
        let vocab = weights.architecture().model.vocab;
        let Some((planned, batch)) = Sampling::new(config, vocab, runner)? else {
            return Ok(None);
        };
        let model = planned.job.model;
        let mut sampler = planned.sampler(window)?;
        weights.read(&Tensors::weights_of(&model), PositionRows::Crop, &mut sampler)?;
        let (config, prompt) = (config.clone(), prompt.clone());
        let arena_bytes = planned.plan.plan().arena_bytes();
        Ok(Some(OpenModel { config, prompt, sampler, batch, arena_bytes, block: model.block }))
    }
}

impl OpenModel {
    /// Makes all samples, and reports each; `None` if it was stopped.
    pub fn generate(
        &mut self,
        stop: &StopFlag,
        report: &mut dyn FnMut(SampleEvent<'_>),
    ) -> Result<Option<MadeSamples>, Failure> {
        let samples = u64::from(self.config.num_samples());
        let mut texts: Vec<Vec<u32>> = Vec::new();
        let clock = Instant::now();
        while (texts.len() as u64) < samples {
            let first = texts.len() as u64;
            let wanted = (samples - first).min(self.batch) as usize;
            if !self.continue_all(first, stop, report)? {
                return Ok(None);
            }
            for text in &self.sampler.texts()[..wanted] {
                report(SampleEvent::Complete(text));
                texts.push(text.clone());
            }
        }
        let made = samples * u64::from(self.config.max_new_tokens());
        let tokens_per_s = made as f64 / clock.elapsed().as_secs_f64();
        let Self { arena_bytes, block, .. } = *self;
        let (prompt_tokens, refills) = (self.prompt.len(), self.sampler.refills());
        Ok(Some(MadeSamples { texts, prompt_tokens, tokens_per_s, arena_bytes, refills, block }))
    }

    /// Makes one batch of samples; `false` if it was stopped.
    fn continue_all(
        &mut self,
        first_sample: u64,
        stop: &StopFlag,
        report: &mut dyn FnMut(SampleEvent<'_>),
    ) -> Result<bool, Failure> {
        let Self { config, prompt, sampler, .. } = self;
        let choice = Choice::new(config);
        let mut ranked = Vec::new();
        sampler.begin(prompt)?;
        report(SampleEvent::Begun(prompt));
        for n in 0..config.max_new_tokens() {
            if stop.is_asked_for() {
                return Ok(false);
            }
            if n > 0 {
                sampler.advance()?;
            }
            report(SampleEvent::Token(sampler.choose(&choice, first_sample, &mut ranked)));
        }
        Ok(true)
    }
}

/// The config with the model of the weights. Rotary positions have no table, so the KV cache needs
/// only as many positions as this text has tokens.
fn with_shape(config: &Config, weights: &Weights, prompt: usize) -> Result<Config, Failure> {
    let there = &weights.architecture().model;
    let wanted = prompt.saturating_add(config.max_new_tokens() as usize);
    let block = match there.positions {
        model::Positions::Learned => there.block,
        model::Positions::Rotary(_) => wanted.clamp(2, there.block as usize) as u32,
    };
    weights.description().check_window(block).map_err(|error| Failure::of("checkpoint", &error))?;
    let changes = [("block_size", block.into()), ("eval_block_size", 0_u32.into())];
    Ok(config.with("the checkpoint", weights.description().pairs().chain(changes))?)
}
