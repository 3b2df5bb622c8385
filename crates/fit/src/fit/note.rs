//! Remarks in addition to the options.

use fitgpt_config::Precision;
use fitgpt_model::{
    Model, Parameter,
    optimizer::{Optimizer, OptimizerState},
};
use fitgpt_program::{memory::PlanError, units::Bytes};
use serde::Serialize;

use super::{Engine, FitRequest};

/// A remark about a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(tag = "note", rename_all = "kebab-case")]
pub enum FitNote {
    /// The device has no bfloat16.
    NoBf16 {
        /// The `dtype` to write.
        instead: &'static str,
    },
    /// Weights, gradients and the optimizer's states alone exceed the device, at any batch size.
    StaticStateTooLarge {
        /// 16 a parameter with AdamW.
        state_bytes: Bytes,
        /// The device's usable memory.
        usable_bytes: Bytes,
    },
    /// The config has a tensor that the device cannot hold in one piece.
    TooLargeForOnePiece {
        /// Which.
        tensor: String,
        /// Its size.
        need_bytes: Bytes,
        /// The device's largest piece.
        have_bytes: Bytes,
    },
    /// `dtype = 'bfloat16'` is faster on this CPU, and changes rounding.
    FasterInBf16 {
        /// Most live bytes with it.
        peak_bytes: Bytes,
        /// The original's peak less this one's.
        saved_bytes: Bytes,
    },
    /// A larger micro-batch than the listed one fits and makes the same effective batch, though
    /// it does not divide `batch_size`.
    OtherSplit {
        /// The micro-batch.
        batch_size: u32,
        /// How many of it make the step.
        gradient_accumulation_steps: u32,
        /// Most live bytes.
        peak_bytes: Bytes,
    },
}

/// The remarks that follow from the request alone.
pub(super) fn of_request(request: &FitRequest<'_>, refusal: Option<PlanError>) -> Vec<FitNote> {
    let mut notes = Vec::new();
    if request.engine.precision() == Precision::Bfloat16 && !request.has_bf16 {
        notes.push(FitNote::NoBf16 { instead: Precision::Float16.name() });
    }
    if let Some(PlanError::TooLargeForOnePiece { tensor, need, have }) = refusal {
        notes.push(FitNote::TooLargeForOnePiece { tensor, need_bytes: need, have_bytes: have });
    }
    notes
}

/// Set if the memory that is held in every phase is too large already.
pub(super) fn static_state(request: &FitRequest<'_>) -> Option<FitNote> {
    let model = Model::new(request.config, request.vocab);
    let state_bytes = match request.engine {
        Engine::Fitgpt { .. } => {
            let optimizer = Optimizer::of(request.config);
            let of = |parameter: &Parameter| {
                // A weight, a gradient and the optimizer's states.
                let states = optimizer.states(parameter);
                8 * parameter.count() + states.iter().map(OptimizerState::bytes).sum::<u64>()
            };
            Bytes::new(model.parameters().iter().map(of).sum())
        }
        Engine::Torch { .. } if request.config.eval_only() => return None,
        Engine::Torch { .. } => Bytes::new(model.parameter_count().saturating_mul(16)),
    };
    let usable_bytes = request.device.usable_bytes;
    let [least_overhead, _] = request.overhead.range();
    let is_too_large = state_bytes > usable_bytes.saturating_sub(least_overhead);
    is_too_large.then_some(FitNote::StaticStateTooLarge { state_bytes, usable_bytes })
}
