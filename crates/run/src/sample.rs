//! Sampling: continues a prompt, all samples decoded as one batch.
//!
//! A prompt is prefilled once per sequence, then every token takes one run of the decode program
//! with the KV cache. Past `block_size` nanoGPT moves its window by one and renumbers the
//! positions, which invalidates a cache: we prefill again from the last half block, or, with
//! [`ContextWindow::Exact`], recompute the whole window for every token as nanoGPT does.

use fitgpt_checkpoint as checkpoint;
use fitgpt_checkpoint::{StoreError, TensorPiece};
use fitgpt_config::Config;
use fitgpt_data::counter;
use fitgpt_exec::{Arguments, Backend, BackendError, reference::bfloat16};
use fitgpt_model::{
    Model, Parameter,
    programs::{ProgramHandle, SamplingHandles, TextTensors},
    state::{SampledTypes, SamplingState, TrainingState},
    training::Training,
};
use fitgpt_program::units::{Bytes, DType, ProgramId, TensorId};

use super::{error::RunError, init};

/// What happens past `block_size`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ContextWindow {
    /// The cache is refilled from the last half block.
    Half,
    /// The last whole block is recomputed for every token.
    Exact,
}

/// How the next token is chosen.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Choice {
    /// 0 chooses the likeliest.
    pub temperature: f64,
    /// Choose among this many of the likeliest; 0 for all.
    pub top_k: usize,
    /// Choose among the likeliest that together have this probability.
    pub top_p: f64,
    /// Seed of the random numbers.
    pub seed: u64,
}

impl Choice {
    /// From the config's keys.
    pub fn new(config: &Config) -> Self {
        Self {
            temperature: config.temperature(),
            top_k: config.top_k() as usize,
            top_p: config.top_p(),
            seed: config.seed(),
        }
    }

    /// Chooses from `logits` for token `position` of sample `sample`. `ranked` is working
    /// space that is kept between calls.
    pub fn next(
        &self,
        logits: &[f32],
        sample: u64,
        position: u64,
        ranked: &mut Vec<(f32, u32)>,
    ) -> u32 {
        ranked.clear();
        ranked.extend(logits.iter().copied().zip(0..));
        // Equal scores are ordered by id, so that the order is unique.
        let by_score = |a: &(f32, u32), b: &(f32, u32)| b.0.total_cmp(&a.0).then(a.1.cmp(&b.1));
        if self.temperature == 0.0 {
            return ranked.iter().min_by(|a, b| by_score(a, b)).map_or(0, |(_, id)| *id);
        }
        if self.top_k > 0 && self.top_k < ranked.len() {
            ranked.select_nth_unstable_by(self.top_k - 1, by_score);
            ranked.truncate(self.top_k);
        }
        ranked.sort_unstable_by(by_score);
        let highest = f64::from(ranked[0].0);
        let weight = |score: f32| ((f64::from(score) - highest) / self.temperature).exp();
        let all: f64 = ranked.iter().map(|(score, _)| weight(*score)).sum();
        if self.top_p < 1.0 {
            let mut sum = 0.0;
            let enough = ranked.iter().position(|(score, _)| {
                sum += weight(*score);
                sum >= self.top_p * all
            });
            ranked.truncate(enough.map_or(ranked.len(), |last| last + 1));
        }
        let left: f64 = ranked.iter().map(|(score, _)| weight(*score)).sum();
        let draw = counter::draw([self.seed, STREAM, sample, position]);
        let mut at = left * (draw >> 11) as f64 / (1u64 << 53) as f64;
        for (score, id) in ranked.iter() {
            at -= weight(*score);
            if at < 0.0 {
                return *id;
            }
        }
        ranked[ranked.len() - 1].1
    }
}

/// Separates the random numbers of samples from those of data and weights.
const STREAM: u64 = 0x7361_6d70;

/// Texts being generated, in the memory of a backend for sampling only or of a training run.
pub struct Continuation {
    programs: SamplingHandles,
    caches: Vec<[TensorId; 2]>,
    cache_bytes: Bytes, // of one tensor
    block: usize,
    vocab: usize,
    window: ContextWindow,
    texts: Vec<Vec<u32>>, // the prompt and all that follows, by sample
    cached: usize,        // tokens of each text that the cache holds
    logits: Vec<f32>,     // by sample
    refills: u64,
}

impl Continuation {
    /// Generates `samples` sequences of `model`; `caches` hold the keys and values of all of them.
    fn new(
        programs: SamplingHandles,
        caches: &[[TensorId; 2]],
        cache_bytes: Bytes,
        model: &Model,
        samples: u64,
        window: ContextWindow,
    ) -> Self {
        Self {
            programs,
            caches: caches.to_vec(),
            cache_bytes,
            block: model.block as usize,
            vocab: model.vocab as usize,
            window,
            texts: vec![Vec::new(); samples as usize],
            cached: 0,
            logits: vec![0.0; model.vocab as usize * samples as usize],
            refills: 0,
        }
    }

    /// Generates the sequences that a training run samples; `None` if it samples none.
    pub fn in_training(
        model: &Model,
        training: &Training,
        state: &TrainingState,
        programs: SamplingHandles,
    ) -> Option<Self> {
        let first = state.caches.first()?[0];
        let cache_bytes = state.tensors[first.index()].bytes();
        let samples = training.sampled;
        Some(Self::new(programs, &state.caches, cache_bytes, model, samples, ContextWindow::Half))
    }

    /// Starts every sample with `prompt`, which is not empty.
    pub fn begin(&mut self, backend: &mut dyn Backend, prompt: &[u32]) -> Result<(), RunError> {
        assert!(!prompt.is_empty(), "there is something to continue");
        for text in &mut self.texts {
            text.clear();
            text.extend_from_slice(prompt);
        }
        self.refill(backend, prompt.len().saturating_sub(self.block))
    }

    /// Adds one token to every sample, and returns that of the first one. `first_sample` is its
    /// number among all samples of the command.
    pub fn choose(
        &mut self,
        choice: &Choice,
        first_sample: u64,
        ranked: &mut Vec<(f32, u32)>,
    ) -> u32 {
        for (sample, text) in self.texts.iter_mut().enumerate() {
            let logits = &self.logits[sample * self.vocab..][..self.vocab];
            let number = first_sample + sample as u64;
            text.push(choice.next(logits, number, text.len() as u64, ranked));
        }
        self.texts[0].last().copied().unwrap_or_default()
    }

    /// The prompt and all that follows, by sample.
    pub fn texts(&self) -> &[Vec<u32>] {
        &self.texts
    }

    /// Computes the logits of the next token.
    pub fn advance(&mut self, backend: &mut dyn Backend) -> Result<(), RunError> {
        let length = self.texts[0].len();
        if self.window == ContextWindow::Exact {
            return self.refill(backend, length.saturating_sub(self.block));
        }
        if self.cached == self.block {
            self.refills += 1;
            return self.refill(backend, length - (self.block / 2).max(1));
        }
        let tokens: Vec<u32> = self.texts.iter().map(|text| text[length - 1]).collect();
        let decode = self.programs.decode;
        put(backend, decode, &tokens)?;
        let arguments = Arguments { length: self.cached as u64, ..Arguments::default() };
        backend.run(decode.program, &arguments)?;
        self.cached += 1;
        let bytes = bytemuck::cast_slice_mut(&mut self.logits);
        Ok(backend.read(decode.program, decode.tensors.logits, Bytes::ZERO, bytes)?)
    }

    /// Fills the caches with the texts from token `first` on.
    fn refill(&mut self, backend: &mut dyn Backend, first: usize) -> Result<(), RunError> {
        self.cached = self.texts[0].len() - first;
        let prefill = self.programs.prefill;
        let is_alike = self.texts.windows(2).all(|pair| pair[0] == pair[1]);
        for sample in 0..self.texts.len() {
            let tokens = self.texts[sample][first..].to_vec();
            put(backend, prefill, &tokens)?;
            let (length, cache_row) = (tokens.len() as u64, sample as u64);
            let arguments = Arguments { length, cache_row, ..Arguments::default() };
            backend.run(prefill.program, &arguments)?;
            let row = &mut self.logits[sample * self.vocab..][..self.vocab];
            let bytes = bytemuck::cast_slice_mut(row);
            backend.read(prefill.program, prefill.tensors.logits, Bytes::ZERO, bytes)?;
            // All prompts are equal: copy the cache of the first sample to the others.
            if is_alike && self.texts.len() > 1 && self.window == ContextWindow::Half {
                self.share_first_cache(backend)?;
                break;
            }
        }
        Ok(())
    }

    /// Copies the first sample's cache and logits to the others.
    fn share_first_cache(&mut self, backend: &mut dyn Backend) -> Result<(), RunError> {
        let (first, rest) = self.logits.split_at_mut(self.vocab);
        for row in rest.chunks_mut(self.vocab) {
            row.copy_from_slice(first);
        }
        let row_bytes = self.cache_bytes.get() / self.texts.len() as u64;
        // Only the part that the prompt filled.
        let used_bytes = row_bytes / self.block as u64 * self.cached as u64;
        let mut row = vec![0u8; used_bytes as usize];
        for &tensor in self.caches.as_flattened() {
            backend.read(ProgramId::FIRST, tensor, Bytes::ZERO, &mut row)?;
            for sample in 1..self.texts.len() as u64 {
                backend.write(ProgramId::FIRST, tensor, Bytes::new(sample * row_bytes), &row)?;
            }
        }
        Ok(())
    }
}

fn put(
    backend: &mut dyn Backend,
    to: ProgramHandle<TextTensors>,
    tokens: &[u32],
) -> Result<(), RunError> {
    let bytes = bytemuck::cast_slice(tokens);
    Ok(backend.write(to.program, to.tensors.tokens, Bytes::ZERO, bytes)?)
}

/// Writes float32 values of parameter `index`, of which `start` bytes come before, as `state`
/// stores them.
pub fn write_weights(
    backend: &mut dyn Backend,
    state: &SamplingState,
    index: usize,
    start: Bytes,
    values: &[u8],
) -> Result<(), BackendError> {
    let tensor = state.weights[index];
    if state.tensors[tensor.index()].dtype == DType::F32 {
        return backend.write(ProgramId::FIRST, tensor, start, values);
    }
    if state.embedding_parameter.index() == index {
        backend.write(ProgramId::FIRST, state.embedding, start, values)?;
    }
    let factor = |value: &[u8; 4]| bfloat16::factor(f32::from_ne_bytes(*value)).to_ne_bytes();
    let factors: Vec<u8> = values.as_chunks::<4>().0.iter().flat_map(factor).collect();
    backend.write(ProgramId::FIRST, tensor, Bytes::new(start.get() / 2), &factors)
}

/// A continuation with its own backend.
pub struct Sampler {
    backend: Box<dyn Backend>,
    parameters: Vec<Parameter>,
    state: SamplingState,
    continuation: Continuation,
}

impl Sampler {
    /// `backend` holds the plan of sampling `samples` sequences of `model`.
    pub fn new(
        mut backend: Box<dyn Backend>,
        model: &Model,
        programs: SamplingHandles,
        samples: u64,
        types: SampledTypes,
        window: ContextWindow,
    ) -> Result<Self, BackendError> {
        let state = SamplingState::new(model, samples, types);
        init::rotary(&mut *backend, state.rotary, model)?;
        let cache_bytes = state.tensors[state.caches[0][0].index()].bytes();
        let continuation =
            Continuation::new(programs, &state.caches, cache_bytes, model, samples, window);
        Ok(Self { backend, parameters: model.parameters(), state, continuation })
    }

    /// Starts every sample with `prompt`, which is not empty.
    pub fn begin(&mut self, prompt: &[u32]) -> Result<(), RunError> {
        self.continuation.begin(&mut *self.backend, prompt)
    }

    /// As [`Continuation::choose`].
    pub fn choose(
        &mut self,
        choice: &Choice,
        first_sample: u64,
        ranked: &mut Vec<(f32, u32)>,
    ) -> u32 {
        self.continuation.choose(choice, first_sample, ranked)
    }

    /// The prompt and all that follows, by sample.
    pub fn texts(&self) -> &[Vec<u32>] {
        self.continuation.texts()
    }

    /// The logits of the next token, by sample.
    pub fn logits(&self) -> &[f32] {
        &self.continuation.logits
    }

    /// How often the cache was refilled.
    pub fn refills(&self) -> u64 {
        self.continuation.refills
    }

    /// Computes the logits of the next token.
    pub fn advance(&mut self) -> Result<(), RunError> {
        self.continuation.advance(&mut *self.backend)
    }
}

impl checkpoint::TensorSink for Sampler {
    fn write(&mut self, piece: TensorPiece<'_>, bytes: &[u8]) -> Result<(), StoreError> {
        let index = self.parameters.iter().position(|p| p.name == piece.entry.parameter);
        let index = index.expect("entries are made from the parameters");
        let start = Bytes::new(piece.start as u64);
        Ok(write_weights(&mut *self.backend, &self.state, index, start, bytes)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Choice = Choice { temperature: 1.0, top_k: 0, top_p: 1.0, seed: 7 };

    fn draws(choice: &Choice, logits: &[f32]) -> Vec<u32> {
        let mut ranked = Vec::new();
        (0..20_000).map(|position| choice.next(logits, 0, position, &mut ranked)).collect()
    }

    #[test]
    fn tokens_are_drawn_with_their_probability() {
        let logits = [0.5f32.ln(), 0.3f32.ln(), 0.2f32.ln()];
        let drawn = draws(&PLAIN, &logits);
        for (id, share) in (0..).zip([0.5, 0.3, 0.2]) {
            let count = drawn.iter().filter(|d| **d == id).count() as f64;
            // Five standard deviations of a binomial, at most 0.018 of the draws.
            assert!((count / 20_000.0 - share).abs() < 0.018, "{id}: {count}");
        }
    }

    #[test]
    fn temperature_zero_takes_the_likeliest_and_the_first_of_equals() {
        let greedy = Choice { temperature: 0.0, ..PLAIN };
        assert_eq!(greedy.next(&[0.0, 2.0, 2.0], 0, 0, &mut Vec::new()), 1);
    }

    #[test]
    fn top_k_and_top_p_exclude_the_rest() {
        let logits = [0.5f32.ln(), 0.3f32.ln(), 0.2f32.ln()];
        let two = Choice { top_k: 2, ..PLAIN };
        assert!(draws(&two, &logits).iter().all(|id| *id < 2));
        let most = Choice { top_p: 0.6, ..PLAIN };
        let drawn = draws(&most, &logits);
        assert!(drawn.contains(&1) && drawn.iter().all(|id| *id < 2));
        let one = Choice { top_p: 0.4, ..PLAIN };
        assert!(draws(&one, &logits).iter().all(|id| *id == 0));
    }
}
