//! The optimizer: the norm of the whole gradient, AdamW as PyTorch computes it, and Lion.
//!
//! ```text
//! p *= 1 - lr · weight_decay
//! m = β₁ m + (1 - β₁) g;  v = β₂ v + (1 - β₂) g²
//! p -= lr / (1 - β₁ᵗ) · m / (√v / √(1 - β₂ᵗ) + ε)
//! ```
//!
//! Lion, as its authors' algorithm 2; the sign of zero is zero:
//!
//! ```text
//! p *= 1 - lr · weight_decay
//! p -= lr · sign(β₁ m + (1 - β₁) g)
//! m = β₂ m + (1 - β₂) g
//! ```
//!
//! Gradients include the loss scale, which is divided out only here. The norm is clipped as
//! `torch.nn.utils.clip_grad_norm_` does.

use fitgpt_program::{Adam, ElementRule, Lion, Op};

use super::{
    misplaced,
    values::{ChangedTensor, OpValues},
};
use crate::Arguments;

/// `clip_grad_norm_` adds this, so that it never divides by zero.
const CLIP_EPSILON: f64 = 1e-6;

/// One element with its moments.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AdamElement {
    pub(super) parameter: f64,
    pub(super) exp_avg: f64,
    pub(super) exp_avg_sq: f64,
}

/// The constants of one step, which all elements of a parameter share.
pub(super) struct AdamStep {
    gradient_factor: f64,
    decay_factor: f64,
    beta1: f64,
    beta2: f64,
    rate: f64,
    root_correction: f64,
    epsilon: f64,
}

/// The factor of a gradient.
pub(super) fn gradient_factor(grad_clip: f32, arguments: &Arguments, norm: f64) -> f64 {
    let limit = f64::from(grad_clip);
    let clip = if limit > 0.0 { (limit / (norm + CLIP_EPSILON)).min(1.0) } else { 1.0 };
    clip / f64::from(arguments.loss_scale)
}

impl AdamStep {
    pub(super) fn new(adam: &Adam, arguments: &Arguments, norm: f64, decays: bool) -> Self {
        let (beta1, beta2) = (f64::from(adam.beta1), f64::from(adam.beta2));
        let lr = f64::from(arguments.lr);
        let updates = arguments.updates as f64;
        Self {
            gradient_factor: gradient_factor(adam.grad_clip, arguments, norm),
            decay_factor: if decays { 1.0 - lr * f64::from(adam.weight_decay) } else { 1.0 },
            beta1,
            beta2,
            rate: lr / (1.0 - beta1.powf(updates)),
            root_correction: (1.0 - beta2.powf(updates)).sqrt(),
            epsilon: adam.epsilon.into(),
        }
    }

    pub(super) fn update(&self, old: AdamElement, gradient: f64) -> AdamElement {
        let gradient = gradient * self.gradient_factor;
        let exp_avg = self.beta1 * old.exp_avg + (1.0 - self.beta1) * gradient;
        let exp_avg_sq = self.beta2 * old.exp_avg_sq + (1.0 - self.beta2) * gradient * gradient;
        let root = exp_avg_sq.sqrt() / self.root_correction + self.epsilon;
        let parameter = old.parameter * self.decay_factor - self.rate * exp_avg / root;
        AdamElement { parameter, exp_avg, exp_avg_sq }
    }
}

/// As [`AdamStep`], for Lion.
struct LionStep {
    gradient_factor: f64,
    decay_factor: f64,
    beta1: f64,
    beta2: f64,
    lr: f64,
}

impl LionStep {
    fn new(lion: &Lion, arguments: &Arguments, norm: f64, decays: bool) -> Self {
        let lr = f64::from(arguments.lr);
        Self {
            gradient_factor: gradient_factor(lion.grad_clip, arguments, norm),
            decay_factor: if decays { 1.0 - lr * f64::from(lion.weight_decay) } else { 1.0 },
            beta1: lion.beta1.into(),
            beta2: lion.beta2.into(),
            lr,
        }
    }

    /// The new parameter; changes the moment.
    fn update(&self, parameter: f64, exp_avg: &mut f64, gradient: f64) -> f64 {
        let gradient = gradient * self.gradient_factor;
        let direction = self.beta1 * *exp_avg + (1.0 - self.beta1) * gradient;
        *exp_avg = self.beta2 * *exp_avg + (1.0 - self.beta2) * gradient;
        let sign = if direction == 0.0 { 0.0 } else { direction.signum() };
        parameter * self.decay_factor - self.lr * sign
    }
}

/// A new parameter from the old one, its states, which are changed, and its gradient.
type ElementUpdate = Box<dyn Fn(f64, &mut [f64], f64) -> f64>;

fn element_update(
    rule: &ElementRule,
    arguments: &Arguments,
    norm: f64,
    decays: bool,
) -> ElementUpdate {
    match rule {
        ElementRule::AdamW(adam) => {
            let step = AdamStep::new(adam, arguments, norm, decays);
            Box::new(move |parameter, states, gradient| {
                let old = AdamElement { parameter, exp_avg: states[0], exp_avg_sq: states[1] };
                let new = step.update(old, gradient);
                states.copy_from_slice(&[new.exp_avg, new.exp_avg_sq]);
                new.parameter
            })
        }
        ElementRule::Lion(lion) => {
            let step = LionStep::new(lion, arguments, norm, decays);
            Box::new(move |parameter, states, gradient| {
                step.update(parameter, &mut states[0], gradient)
            })
        }
    }
}

#[expect(clippy::wildcard_enum_match_arm, reason = "`run` sends no other op here")]
pub(super) fn run(op: &Op, values: &mut OpValues<'_, '_>) {
    match *op {
        Op::GradientNorm { ref gradients, norm } => {
            let square = |g: f64| g * g;
            let of = |tensor| values.load(tensor).into_iter().map(square).sum::<f64>();
            let total: f64 = gradients.iter().copied().map(of).sum();
            values.store(norm, &[total.sqrt() / f64::from(values.arguments.loss_scale)]);
        }
        Op::Update { norm, parameter, gradient, ref states, first, decays, ref rule } => {
            let norm = values.load(norm)[0];
            let mut states: Vec<_> = states.iter().map(|tensor| values.take(*tensor)).collect();
            let mut kept: Vec<_> = states.iter().map(ChangedTensor::get).collect();
            let first = first as usize;
            let owned = first..first + kept[0].len();
            let mut gradient = values.take(gradient);
            let gradients = gradient.get()[owned.clone()].to_vec();
            gradient.put(first, &vec![0.0; gradients.len()]);
            if !norm.is_finite() {
                return;
            }
            let update = element_update(rule, values.arguments, norm, decays);
            let mut parameter = values.take(parameter);
            let mut p = parameter.get()[owned].to_vec();
            for (i, gradient) in gradients.into_iter().enumerate() {
                let mut element: Vec<_> = kept.iter().map(|state| state[i]).collect();
                p[i] = update(p[i], &mut element, gradient);
                for (state, new) in kept.iter_mut().zip(element) {
                    state[i] = new;
                }
            }
            parameter.put(first, &p);
            for (state, values) in states.iter_mut().zip(kept) {
                state.put(0, &values);
            }
        }
        _ => misplaced(op),
    }
}

#[cfg(test)]
#[expect(clippy::float_cmp, reason = "the numbers are chosen so that nothing is rounded")]
mod tests {
    use super::*;

    const ADAM: Adam =
        Adam { beta1: 0.5, beta2: 0.75, epsilon: 0.0, weight_decay: 0.5, grad_clip: 0.0 };
    const OLD: AdamElement = AdamElement { parameter: 1.0, exp_avg: 0.0, exp_avg_sq: 0.0 };

    fn arguments(updates: u64) -> Arguments {
        Arguments { lr: 0.25, updates, ..Arguments::default() }
    }

    #[test]
    fn the_first_update_moves_by_the_learning_rate_for_any_gradient() {
        for gradient in [1e-3, 5.0, -2.0] {
            let new = AdamStep::new(&ADAM, &arguments(1), 1.0, false).update(OLD, gradient);
            let moved = OLD.parameter - new.parameter;
            assert!((moved - 0.25 * f64::signum(gradient)).abs() < 1e-15, "{moved}");
        }
    }

    #[test]
    fn decay_shrinks_the_weight_and_not_the_moments() {
        let step = |decays| AdamStep::new(&ADAM, &arguments(1), 1.0, decays).update(OLD, 1.0);
        let (with, without) = (step(true), step(false));
        assert_eq!(without.parameter - with.parameter, 0.125); // lr · weight_decay · 1
        assert_eq!(with.exp_avg, without.exp_avg);
    }

    #[test]
    fn the_second_update_matches_a_calculation_by_hand() {
        let old = AdamElement { parameter: 1.0, exp_avg: 0.5, exp_avg_sq: 0.25 };
        let new = AdamStep::new(&ADAM, &arguments(2), 1.0, false).update(old, 2.0);
        // m = ½ · ½ + ½ · 2; v = ¾ · ¼ + ¼ · 4; corrections 1 - ½² and 1 - ¾².
        assert_eq!((new.exp_avg, new.exp_avg_sq), (1.25, 1.1875));
        let expected = 1.0 - 0.25 * (1.25 / 0.75) / (1.1875f64 / 0.4375).sqrt();
        assert!((new.parameter - expected).abs() < 1e-15);
    }

    #[test]
    fn a_norm_above_the_limit_scales_the_gradient_and_one_below_does_not() {
        let adam = Adam { grad_clip: 1.0, ..ADAM };
        let factor = |norm| AdamStep::new(&adam, &arguments(1), norm, false).gradient_factor;
        assert!((factor(4.0) - 1.0 / (4.0 + 1e-6)).abs() < 1e-15);
        assert_eq!(factor(0.5), 1.0);
    }

    #[test]
    fn the_loss_scale_is_divided_out() {
        let scaled = Arguments { loss_scale: 1024.0, ..arguments(1) };
        let plain = AdamStep::new(&ADAM, &arguments(1), 1.0, false).update(OLD, 0.5);
        assert_eq!(AdamStep::new(&ADAM, &scaled, 1.0, false).update(OLD, 512.0), plain);
    }
}
