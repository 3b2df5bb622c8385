//! Optimizers: which states a parameter has, and which op updates it.
//!
//! An optimizer has a rule for each parameter; parameters of one model may have different rules.
//! Each state of a rule has a name and a type, which checkpoints store.
//!
//! 8-bit AdamW follows bitsandbytes' CUDA kernel: its maps to the bit, and codes of the nearest
//! number (its CPU kernel looks codes up in a coarser table), with weight decay before the update
//! as in PyTorch's AdamW. On a CPU, codes and scales are the bits of plain float32. GPUs may fuse
//! multiplications and additions, so conformance keeps its inputs away from the midpoints of two
//! numbers and compares codes exactly. Muon is `torch.optim.Muon`, except that the norm stays
//! float32. If the iteration is in bfloat16, a CPU stores it as bfloat16, and a GPU rounds float32,
//! so that devices without the type agree. GPUs multiply it with the ordinary units.
//!
//! Promise: codes and scales of 8-bit AdamW equal NumPy's; Muon equals its algorithm, and PyTorch's
//! within bfloat16. Test: `tests/library/optimizers.rs`.

use std::ops::Range;

use fitgpt_config::{Config, MuonDtype, OptimizerChoice};
use fitgpt_program::{
    Adam, ElementRule, Lion, Muon, Op, QUANTISED_BLOCK,
    units::{DType, TensorId},
};

use crate::{Parameter, ParameterRole};

/// An optimizer with its constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Optimizer {
    /// One rule for every element.
    Elementwise(ElementRule),
    /// `AdamW`, with 8-bit moments for all but small parameters.
    AdamW8bit(Adam),
    /// Muon for the matrices of the blocks, `AdamW` for the rest.
    Muon {
        /// Muon's constants.
        muon: Muon,
        /// AdamW's.
        adam: Adam,
    },
}

/// How one parameter is updated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum UpdateRule {
    /// Every element by itself.
    Elementwise(ElementRule),
    /// `AdamW` with 8-bit moments.
    AdamW8bit(Adam),
    /// Muon.
    Muon(Muon),
}

/// The tensors of one parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterState {
    /// The weights.
    pub weight: TensorId,
    /// Their gradient.
    pub gradient: TensorId,
    /// The elements that this rank updates: all of them in a single process.
    pub owned: Range<u64>,
    /// The sum of the gradients of earlier lanes, for the owned elements, if lanes take turns.
    pub total: Option<TensorId>,
    /// The optimizer's states of the owned elements, by name.
    pub states: Vec<(&'static str, TensorId)>,
}

impl ParameterState {
    /// The optimizer's state of that name. Panics if the parameter's rule has none.
    pub fn optimizer(&self, name: &str) -> TensorId {
        let found = self.states.iter().find(|(state, _)| *state == name);
        found.expect("a rule uses only its own states").1
    }
}

/// Parameters with fewer elements than this keep float32 moments, as in bitsandbytes.
const LEAST_QUANTISED: u64 = 4096;

/// One tensor that a rule keeps for a parameter between steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OptimizerState {
    /// Its prefix in checkpoints, before the parameter's name.
    pub name: &'static str,
    /// Outermost first.
    pub shape: Vec<u64>,
    /// How an element is stored.
    pub dtype: DType,
}

impl OptimizerState {
    /// Bytes of all elements.
    pub fn bytes(&self) -> u64 {
        self.shape.iter().product::<u64>() * self.dtype.size()
    }
}

/// What determines the bytes of an optimizer: its states, and the type of its scratch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Footprint {
    /// Float32 states of every element.
    Elementwise {
        /// How many.
        states: usize,
    },
    /// 8-bit moments.
    AdamW8bit,
    /// One momentum of the matrices.
    Muon {
        /// The type of its iteration.
        iterates_in: DType,
    },
}

impl Optimizer {
    /// `AdamW` for every parameter.
    pub fn adamw(adam: Adam) -> Self {
        Self::Elementwise(ElementRule::AdamW(adam))
    }

    /// The optimizer that a config asks for.
    pub fn of(config: &Config) -> Self {
        let adam = Adam {
            beta1: config.beta1() as f32,
            beta2: config.beta2() as f32,
            epsilon: 1e-8,
            weight_decay: config.weight_decay() as f32,
            grad_clip: config.grad_clip() as f32,
        };
        match config.optimizer() {
            OptimizerChoice::AdamW => Self::adamw(adam),
            OptimizerChoice::AdamW8bit => Self::AdamW8bit(adam),
            OptimizerChoice::Muon => Self::Muon { muon: muon(config), adam },
            OptimizerChoice::Lion => {
                let Adam { beta1, beta2, weight_decay, grad_clip, .. } = adam;
                let lion = Lion { beta1, beta2, weight_decay, grad_clip };
                Self::Elementwise(ElementRule::Lion(lion))
            }
        }
    }

    /// The rule of a parameter.
    pub fn rule(&self, parameter: &Parameter) -> UpdateRule {
        match *self {
            Self::AdamW8bit(adam) if parameter.count() >= LEAST_QUANTISED => {
                UpdateRule::AdamW8bit(adam)
            }
            Self::Muon { muon, .. } if parameter.role == ParameterRole::Matrix => {
                UpdateRule::Muon(muon)
            }
            Self::Elementwise(rule) => UpdateRule::Elementwise(rule),
            Self::AdamW8bit(adam) | Self::Muon { adam, .. } => {
                UpdateRule::Elementwise(ElementRule::AdamW(adam))
            }
        }
    }

    /// The states of a parameter.
    pub fn states(&self, parameter: &Parameter) -> Vec<OptimizerState> {
        self.states_of(parameter, &(0..parameter.count()))
    }

    /// The states of some elements of a parameter; empty if the range is.
    pub fn states_of(&self, parameter: &Parameter, range: &Range<u64>) -> Vec<OptimizerState> {
        if range.is_empty() {
            return Vec::new();
        }
        let count = range.end - range.start;
        let shape = if count == parameter.count() { parameter.shape.clone() } else { vec![count] };
        let like = |name, dtype| OptimizerState { name, shape: shape.clone(), dtype };
        let scales = |name| {
            let shape = vec![count.div_ceil(QUANTISED_BLOCK)];
            OptimizerState { name, shape, dtype: DType::F32 }
        };
        match self.rule(parameter) {
            UpdateRule::Elementwise(rule) => {
                rule.states().iter().map(|name| like(name, DType::F32)).collect()
            }
            UpdateRule::AdamW8bit(_) => vec![
                like("exp_avg", DType::U8),
                like("exp_avg_sq", DType::U8),
                scales("exp_avg_scale"),
                scales("exp_avg_sq_scale"),
            ],
            UpdateRule::Muon(_) => vec![like("momentum_buffer", DType::F32)],
        }
    }

    /// The op that updates the elements that `state` owns; `norm` is the norm of the whole
    /// gradient.
    pub(crate) fn update(
        &self,
        parameter: &Parameter,
        state: &ParameterState,
        norm: TensorId,
    ) -> Op {
        let (weight, gradient) = (state.weight, state.gradient);
        let (decays, first) = (parameter.decays(), state.owned.start);
        match self.rule(parameter) {
            UpdateRule::Elementwise(rule) => Op::Update {
                norm,
                parameter: weight,
                gradient,
                states: rule.states().iter().map(|name| state.optimizer(name)).collect(),
                first,
                decays,
                rule,
            },
            UpdateRule::AdamW8bit(adam) => Op::AdamW8bit {
                norm,
                parameter: weight,
                gradient,
                exp_avg: state.optimizer("exp_avg"),
                exp_avg_scale: state.optimizer("exp_avg_scale"),
                exp_avg_sq: state.optimizer("exp_avg_sq"),
                exp_avg_sq_scale: state.optimizer("exp_avg_sq_scale"),
                first,
                decays,
                adam,
            },
            UpdateRule::Muon(muon) => Op::Muon {
                norm,
                parameter: weight,
                gradient,
                momentum: state.optimizer("momentum_buffer"),
                muon,
            },
        }
    }

    /// What determines its bytes.
    pub fn footprint(&self) -> Footprint {
        match self {
            Self::Elementwise(rule) => Footprint::Elementwise { states: rule.states().len() },
            Self::AdamW8bit(_) => Footprint::AdamW8bit,
            Self::Muon { muon, .. } => Footprint::Muon { iterates_in: muon.dtype },
        }
    }
}

fn muon(config: &Config) -> Muon {
    let lr_ratio = match config.learning_rate() {
        0.0 => 0.0, // avoids 0 / 0
        lr => config.muon_learning_rate() / lr,
    };
    Muon {
        lr_ratio: lr_ratio as f32,
        adjust: config.muon_adjust_lr(),
        momentum: config.muon_momentum() as f32,
        nesterov: config.muon_nesterov(),
        steps: config.muon_ns_steps(),
        coefficients: config.muon_ns_coefficients().0.map(|c| c as f32),
        epsilon: config.muon_eps() as f32,
        dtype: match config.muon_dtype() {
            MuonDtype::Bfloat16 => DType::Bf16,
            MuonDtype::Float32 => DType::F32,
        },
        weight_decay: config.weight_decay() as f32,
        grad_clip: config.grad_clip() as f32,
    }
}

#[cfg(test)]
mod tests {
    use fitgpt_config::Written;

    use super::*;
    use crate::Model;

    fn config(pairs: &[(&str, &str)]) -> Config {
        let mut written = Written::new();
        let sizes = [("n_layer", "2"), ("n_head", "2"), ("n_embd", "64"), ("bias", "True")];
        for (key, value) in sizes.iter().chain(pairs) {
            written.set(key, value).unwrap();
        }
        written.resolve().unwrap()
    }

    /// A state's name, type and count.
    type StateSummary = (&'static str, DType, u64);

    /// The states of each parameter.
    fn states(pairs: &[(&str, &str)]) -> Vec<(String, Vec<StateSummary>)> {
        let config = config(pairs);
        let optimizer = Optimizer::of(&config);
        let of = |parameter: &Parameter| {
            let list = optimizer.states(parameter).into_iter();
            list.map(|s| (s.name, s.dtype, s.shape.iter().product())).collect()
        };
        let parameters = Model::new(&config, 65).parameters();
        parameters.iter().map(|p| (p.name.clone(), of(p))).collect()
    }

    #[test]
    fn moments_of_small_parameters_stay_float32() {
        for (name, states) in states(&[("optimizer", "adamw8bit"), ("block_size", "63")]) {
            let has_codes = states.iter().any(|(_, dtype, _)| *dtype == DType::U8);
            let is_large =
                !(name.ends_with("bias") || name.contains("ln_") || name.contains("wpe"));
            assert_eq!(has_codes, is_large, "{name}"); // wte has 4,160 elements, wpe 4,032
        }
    }

    #[test]
    fn a_partial_last_block_has_a_scale_too() {
        let all = states(&[("optimizer", "adamw8bit"), ("block_size", "65")]);
        let wte = &all.iter().find(|(name, _)| name.starts_with("wte")).unwrap().1;
        assert_eq!(
            wte[..],
            [
                ("exp_avg", DType::U8, 65 * 64),
                ("exp_avg_sq", DType::U8, 65 * 64),
                ("exp_avg_scale", DType::F32, 17), // 16 blocks and a quarter
                ("exp_avg_sq_scale", DType::F32, 17),
            ]
        );
    }

    #[test]
    fn muon_updates_the_matrices_of_the_blocks_and_nothing_else() {
        for (name, states) in states(&[("optimizer", "muon")]) {
            let is_matrix =
                name.starts_with("h.") && name.contains(".c_") && !name.ends_with("bias");
            let expected: &[_] =
                if is_matrix { &["momentum_buffer"] } else { &["exp_avg", "exp_avg_sq"] };
            let names: Vec<_> = states.iter().map(|(name, ..)| *name).collect();
            assert_eq!(names, expected, "{name}");
        }
    }

    #[test]
    #[expect(clippy::float_cmp, reason = "quotients of powers of two are exact")]
    fn muon_has_a_separate_learning_rate_unless_its_updates_match_adamw() {
        let ratio = |pairs: &[(&str, &str)]| {
            let mut all = vec![("optimizer", "muon"), ("learning_rate", "0.005")];
            all.extend(pairs);
            let optimizer = Optimizer::of(&config(&all));
            let Optimizer::Muon { muon, .. } = optimizer else { panic!("{optimizer:?}") };
            muon.lr_ratio
        };
        assert_eq!(ratio(&[]), 4.0);
        assert_eq!(ratio(&[("muon_adjust_lr", "match_rms_adamw")]), 1.0);
        assert_eq!(ratio(&[("muon_learning_rate", "0.01")]), 2.0);
    }

    #[test]
    fn learning_rate_adjustments_are_those_of_torch() {
        let all = [
            ("original", [2.0, 1.0]),
            ("match_rms_adamw", [0.2 * 8.0, 0.2 * 8.0]),
            ("spectral_unclamped", [2.0, 0.5]),
        ];
        for (name, expected) in all {
            let config = config(&[("optimizer", "muon"), ("muon_adjust_lr", name)]);
            let muon = muon(&config);
            let found = [muon.adjustment(64, 16), muon.adjustment(16, 64)];
            assert!(found.iter().zip(expected).all(|(f, e)| (f - e).abs() < 1e-12), "{name}");
        }
    }
}
