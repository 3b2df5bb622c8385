//! The gradient norm, and the rules that update each element by itself.

use fitgpt_program::{Adam, ElementRule, Lion, Op, units::DType};

use super::super::{
    case::{CaseBuilder, Fill, OpCase, normals},
    tolerance::{Tolerance, copy, elementwise, sum},
};

pub(super) fn cases() -> Vec<OpCase> {
    let mut list = Vec::new();
    for loss_scale in [1.0, 1024.0] {
        list.push(norm("one tensor", &[&[7]], loss_scale, None));
        list.push(norm("three tensors", &[&[65, 20], &[17], &[130]], loss_scale, None));
        // More than 64 operands.
        list.push(norm("70 tensors", &[&[3][..]; 70], loss_scale, None));
    }
    list.push(norm("an infinite entry", &[&[65, 20], &[17]], 1.0, Some(f64::INFINITY)));
    list.push(norm("a NaN entry", &[&[65, 20], &[17]], 1.0, Some(f64::NAN)));
    for count in [1, 7, 1300] {
        for decays in [true, false] {
            for (updates, grad_clip) in [(1, 0.0), (1, 1.0), (10, 1.0)] {
                let start = UpdateCase { count, decays, updates, grad_clip, around: [0, 0] };
                // Below the limit, above it, and not finite.
                for norm in [0.5, 4.0, f64::INFINITY, f64::NAN] {
                    list.extend([start.adamw(norm), start.lion(norm)]);
                }
            }
        }
    }
    // A rank's part of a parameter: the elements before and after it must not change.
    let start =
        UpdateCase { count: 700, decays: true, updates: 2, grad_clip: 1.0, around: [256, 40] };
    list.extend([0.5, 4.0, f64::NAN].map(|norm| start.adamw(norm)));
    list.extend([0.5, 4.0, f64::NAN].map(|norm| start.lion(norm)));
    list
}

fn norm(title: &str, shapes: &[&[u64]], loss_scale: f32, special: Option<f64>) -> OpCase {
    let mut case = CaseBuilder::new(format!("{title}, loss times {loss_scale}"));
    case.arguments.loss_scale = loss_scale;
    let mut count = 0;
    let mut gradients = Vec::new();
    for (index, shape) in shapes.iter().enumerate() {
        let elements = shape.iter().product::<u64>();
        let mut values = normals(index as u32, elements as usize);
        if let Some(special) = special {
            values[elements as usize / 2] = special;
        }
        let name = format!("gradient {index}");
        gradients.push(case.reads(&name, shape, DType::F32, Fill::Values(values)));
        count += elements;
    }
    let norm = case.writes("norm", &[1], DType::F32, sum(count));
    case.case(Op::GradientNorm { gradients, norm })
}

#[derive(Clone, Copy)]
struct UpdateCase {
    count: u64,
    decays: bool,
    updates: u64,
    grad_clip: f32,
    /// Elements of the parameter before and after those that are updated.
    around: [u64; 2],
}

impl UpdateCase {
    fn adamw(self, norm: f64) -> OpCase {
        let grad_clip = self.grad_clip;
        let adam = Adam { beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weight_decay: 0.1, grad_clip };
        // Away from zero, because AdamW divides by its root.
        let squares = normals(1, self.count as usize).into_iter().map(|n| (0.2 + n.abs()).powi(2));
        let states = [Fill::normal(1.0), Fill::Values(squares.collect())];
        self.case(ElementRule::AdamW(adam), states, norm)
    }

    fn lion(self, norm: f64) -> OpCase {
        let grad_clip = self.grad_clip;
        let lion = Lion { beta1: 0.9, beta2: 0.99, weight_decay: 0.1, grad_clip };
        self.case(ElementRule::Lion(lion), [Fill::normal(1.0)], norm)
    }

    fn case(self, rule: ElementRule, states: impl IntoIterator<Item = Fill>, norm: f64) -> OpCase {
        let Self { count, decays, updates, grad_clip, around: [first, rest] } = self;
        let loss_scale: f32 = 64.0;
        let whole = first + count + rest;
        let title =
            format!("{count} of {whole}, decays {decays}, update {updates}, clip {grad_clip}");
        let mut case = CaseBuilder::new(format!("{title}, norm {norm}"));
        case.arguments.updates = updates;
        case.arguments.lr = 0.1; // large, so that a wrong step is visible in the weight
        case.arguments.loss_scale = loss_scale;
        let changed: fn() -> Tolerance = if norm.is_finite() { elementwise } else { copy };

        let d = DType::F32;
        let norm = case.reads("norm", &[1], d, Fill::Values(vec![norm]));
        let parameter = case.updates("parameter", &[whole], d, Fill::normal(1.0), changed());
        let gradient = Fill::normal(loss_scale.into());
        let gradient = case.updates("gradient", &[whole], d, gradient, copy());
        let names = rule.states().iter().zip(states);
        let states = names.map(|(name, fill)| case.updates(name, &[count], d, fill, changed()));
        let states = states.collect();
        case.case(Op::Update { norm, parameter, gradient, states, first, decays, rule })
    }
}
