//! Optimizers: which states a parameter has, and which op updates it.
//!
//! An optimizer gives each parameter a rule; parameters of one model may have different rules. A
//! rule's states have names and types of their own, under which checkpoints store them.

use crate::{
    model::Parameter,
    program::{Adam, Op, ParameterState},
    units::{DType, TensorId},
};

/// An optimizer with its constants.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Optimizer {
    /// AdamW's constants.
    pub adam: Adam,
}

/// How one parameter is updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Rule {
    /// `AdamW` with float32 moments.
    AdamW,
}

/// One tensor that a rule keeps for a parameter between steps.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct State {
    /// As checkpoints name it, in front of the parameter's name.
    pub name: &'static str,
    /// Outermost first.
    pub shape: Vec<u64>,
    /// How an element is stored.
    pub dtype: DType,
}

impl Optimizer {
    /// `AdamW` for every parameter.
    pub fn adamw(adam: Adam) -> Self {
        Self { adam }
    }

    /// The rule of a parameter.
    pub fn rule(&self, _parameter: &Parameter) -> Rule {
        Rule::AdamW
    }

    /// What is kept for a parameter.
    pub fn states(&self, parameter: &Parameter) -> Vec<State> {
        match self.rule(parameter) {
            Rule::AdamW => ["exp_avg", "exp_avg_sq"]
                .map(|name| State { name, shape: parameter.shape.clone(), dtype: DType::F32 })
                .into(),
        }
    }

    /// The op that updates a parameter; `norm` is the norm of the whole gradient.
    pub(crate) fn update(
        &self,
        parameter: &Parameter,
        state: &ParameterState,
        norm: TensorId,
    ) -> Op {
        match self.rule(parameter) {
            Rule::AdamW => Op::AdamW {
                norm,
                parameter: state.weight,
                gradient: state.gradient,
                exp_avg: state.optimizer("exp_avg"),
                exp_avg_sq: state.optimizer("exp_avg_sq"),
                decays: parameter.decays(),
                adam: self.adam,
            },
        }
    }
}
