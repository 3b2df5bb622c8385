//! `AdamW` with moments in 8 bits.
//!
//! A value close to the midpoint of two numbers of the map may get either code, depending on
//! float32 rounding. No case has such a value, so codes must be equal.

use fitgpt_exec::{codebook::Codebook, random::fmix32, reference::decoded};
use fitgpt_program::{Adam, Op, QUANTISED_BLOCK, units::DType};

use super::super::{
    case::{CaseBuilder, Fill, OpCase, normals},
    tolerance::{Tolerance, copy, elementwise},
};

pub(super) fn cases() -> Vec<OpCase> {
    let mut list = Vec::new();
    for count in [1, 256, 1300] {
        for (decays, updates, grad_clip) in [(true, 2, 0.0), (false, 10, 1.0)] {
            for begins in [InitialMoments::AtZero, InitialMoments::Somewhere] {
                let around = [0, 0];
                let start = AdamW8bitCase { count, decays, updates, grad_clip, begins, around };
                // Below the limit, above it, and not finite.
                list.extend([0.5, 4.0, f64::INFINITY, f64::NAN].map(|norm| start.case(norm)));
            }
        }
    }
    // A rank's part of a parameter: the elements before and after it must not change.
    let (begins, around) = (InitialMoments::Somewhere, [512, 40]);
    let start =
        AdamW8bitCase { count: 700, decays: true, updates: 2, grad_clip: 1.0, begins, around };
    list.extend([0.5, f64::NAN].map(|norm| start.case(norm)));
    list
}

/// The moments before the update.
#[derive(Clone, Copy, Debug, PartialEq)]
enum InitialMoments {
    /// As before the first update: codes and scales are zero, and so is half of the gradient.
    AtZero,
    /// Any codes and scales.
    Somewhere,
}

#[derive(Clone, Copy)]
struct AdamW8bitCase {
    count: u64,
    decays: bool,
    updates: u64,
    grad_clip: f32,
    begins: InitialMoments,
    /// Elements of the parameter before and after those that are updated.
    around: [u64; 2],
}

const LOSS_SCALE: f32 = 64.0;
const ADAM: Adam =
    Adam { beta1: 0.9, beta2: 0.99, epsilon: 1e-8, weight_decay: 0.1, grad_clip: 0.0 };

impl AdamW8bitCase {
    fn case(self, norm: f64) -> OpCase {
        let Self { count, decays, updates, grad_clip, begins, around: [first, rest] } = self;
        let whole = first + count + rest;
        let title = format!("{count} of {whole}, {begins:?}, decays {decays}, update {updates}");
        let mut case = CaseBuilder::new(format!("{title}, clip {grad_clip}, norm {norm}"));
        case.arguments.updates = updates;
        case.arguments.lr = 0.1; // large, so that a wrong step is visible in the weight
        case.arguments.loss_scale = LOSS_SCALE;
        let is_finite = norm.is_finite();
        let changed: fn() -> Tolerance = if is_finite { elementwise } else { copy };
        let adam = Adam { grad_clip, ..ADAM };

        let moments = [self.moment(1), self.moment(2)];
        let clip = if grad_clip > 0.0 { (f64::from(grad_clip) / norm).min(1.0) } else { 1.0 };
        let gradient = self.gradient(&moments, clip / f64::from(LOSS_SCALE));
        let outside = |count: u64| vec![1.0; count as usize];
        let padded = [outside(first), gradient, outside(rest)].concat();
        let norm = case.reads("norm", &[1], DType::F32, Fill::Values(vec![norm]));
        let d = DType::F32;
        let parameter = case.updates("parameter", &[whole], d, Fill::normal(1.0), changed());
        let gradient = case.updates("gradient", &[whole], d, Fill::Values(padded), copy());
        let [m, v] = moments;
        let blocks = [count.div_ceil(QUANTISED_BLOCK)];
        let exp_avg = case.updates_codes("exp_avg", m.codes, copy());
        let exp_avg_sq = case.updates_codes("exp_avg_sq", v.codes, copy());
        let scales = Fill::Values(m.scales);
        let exp_avg_scale = case.updates("exp_avg_scale", &blocks, d, scales, changed());
        let scales = Fill::Values(v.scales);
        let exp_avg_sq_scale = case.updates("exp_avg_sq_scale", &blocks, d, scales, changed());
        case.case(Op::AdamW8bit {
            norm,
            parameter,
            gradient,
            exp_avg,
            exp_avg_scale,
            exp_avg_sq,
            exp_avg_sq_scale,
            first,
            decays,
            adam,
        })
    }

    fn moment(self, seed: u32) -> Moment {
        let blocks = self.count.div_ceil(QUANTISED_BLOCK) as usize;
        match self.begins {
            InitialMoments::AtZero => {
                Moment { codes: vec![0; self.count as usize], scales: vec![0.0; blocks] }
            }
            InitialMoments::Somewhere => Moment {
                codes: (0..self.count as u32).map(|i| fmix32(i ^ fmix32(seed)) as u8).collect(),
                scales: normals(seed, blocks).iter().map(|n| stored(0.1 + n.abs())).collect(),
            },
        }
    }

    /// A gradient, multiplied by `factor` in the op, whose new moments are not close to the
    /// midpoint of two numbers.
    fn gradient(self, [m, v]: &[Moment; 2], factor: f64) -> Vec<f64> {
        let mut gradient: Vec<_> =
            normals(3, self.count as usize).iter().map(|n| stored(n / factor)).collect();
        if self.begins == InitialMoments::AtZero {
            // The gradient of the first block is zero, and of every second element of the others.
            let block = QUANTISED_BLOCK as usize;
            let is_zero = |i: usize| i % 2 == 1 || (i < block && self.count as usize > block);
            (0..gradient.len()).filter(|i| is_zero(*i)).for_each(|i| gradient[i] = 0.0);
        }
        let (beta1, beta2) = (f64::from(ADAM.beta1), f64::from(ADAM.beta2));
        let old_m = decoded(Codebook::signed(), &m.codes, &m.scales);
        let old_v = decoded(Codebook::unsigned(), &v.codes, &v.scales);
        loop {
            let effective: Vec<_> = gradient.iter().map(|g| g * factor).collect();
            let sums = |old: &[f64], beta: f64, new: &dyn Fn(f64) -> f64| -> Vec<_> {
                let pairs = old.iter().zip(&effective);
                pairs.map(|(old, g)| [beta * old, (1.0 - beta) * new(*g)]).collect()
            };
            let mut doubtful = close_to_a_middle(Codebook::signed(), &sums(&old_m, beta1, &|g| g));
            let squares = sums(&old_v, beta2, &|g| g * g);
            doubtful.extend(close_to_a_middle(Codebook::unsigned(), &squares));
            if doubtful.is_empty() {
                return gradient;
            }
            for i in doubtful {
                gradient[i] = stored(gradient[i] * 1.01);
            }
        }
    }
}

struct Moment {
    codes: Vec<u8>,
    scales: Vec<f64>,
}

/// As float32 stores it.
fn stored(value: f64) -> f64 {
    f64::from(value as f32)
}

/// Elements, each a sum of two terms, whose code may differ between float32 and float64.
fn close_to_a_middle(book: &Codebook, terms: &[[f64; 2]]) -> Vec<usize> {
    // A few roundings of f32, with a wide margin.
    const MARGIN: f64 = 1e-5;
    let mut middles: Vec<_> =
        book.values.windows(2).map(|pair| f64::midpoint(pair[0].into(), pair[1].into())).collect();
    middles.push(0.0); // the sign changes here
    let mut found = Vec::new();
    for (block, terms) in terms.chunks(QUANTISED_BLOCK as usize).enumerate() {
        let scale = terms.iter().fold(0.0, |most: f64, [a, b]| most.max((a + b).abs()));
        for (i, [a, b]) in terms.iter().enumerate() {
            let (x, margin) = ((a + b) / scale, MARGIN * (a.abs() + b.abs()) / scale);
            // An exact zero needs no margin.
            if middles.iter().any(|middle| (x - middle).abs() < margin) {
                found.push(block * QUANTISED_BLOCK as usize + i);
            }
        }
    }
    found
}
