//! Muon on matrices of every shape: wide, tall, square, one row, one column.

use fitgpt_program::{AdjustLr, Muon, Op, units::DType};

use super::super::{
    case::{CaseBuilder, Fill, OpCase},
    tolerance::{Tolerance, copy, elementwise, iterated},
};

pub(super) fn cases() -> Vec<OpCase> {
    let mut list = Vec::new();
    for dtype in [DType::F32, DType::Bf16] {
        for shape in [[1, 7], [7, 1], [20, 33], [33, 20], [64, 64], [40, 130]] {
            for norm in [0.5, 4.0] {
                list.push(MuonCase { shape, norm, muon: Muon { dtype, ..MUON } }.case());
            }
        }
        let shape = [33, 20];
        let changed = [
            Muon { nesterov: false, adjust: AdjustLr::MatchRmsAdamW, ..MUON },
            Muon { steps: 3, adjust: AdjustLr::SpectralUnclamped, momentum: 0.5, ..MUON },
            Muon { grad_clip: 0.0, lr_ratio: 0.25, epsilon: 1e3, ..MUON },
        ];
        for muon in changed.map(|muon| Muon { dtype, ..muon }) {
            list.push(MuonCase { shape, norm: 4.0, muon }.case());
        }
        for norm in [f64::INFINITY, f64::NAN] {
            list.push(MuonCase { shape, norm, muon: Muon { dtype, ..MUON } }.case());
        }
    }
    list
}

const MUON: Muon = Muon {
    lr_ratio: 8.0,
    adjust: AdjustLr::Original,
    momentum: 0.95,
    nesterov: true,
    steps: 5,
    coefficients: [3.4445, -4.775, 2.0315],
    epsilon: 1e-7,
    dtype: DType::F32,
    weight_decay: 0.1,
    grad_clip: 1.0,
};

struct MuonCase {
    shape: [u64; 2],
    norm: f64,
    muon: Muon,
}

impl MuonCase {
    fn case(self) -> OpCase {
        let Self { shape, norm, muon } = self;
        let loss_scale: f32 = 64.0;
        let [rows, columns] = shape;
        let Muon { dtype, steps, nesterov, adjust, .. } = muon;
        let how = format!("{dtype}, {steps} iterations, {adjust:?}, Nesterov {nesterov}");
        let mut case = CaseBuilder::new(format!("{rows} by {columns}, {how}, norm {norm}"));
        case.arguments.lr = 0.1; // large, so that a wrong step is visible in the weight
        case.arguments.loss_scale = loss_scale;
        let is_finite = norm.is_finite();
        let changed: fn() -> Tolerance = if is_finite { elementwise } else { copy };
        // The slope of the polynomial at zero, where it is largest.
        let growth = f64::from(muon.coefficients[0]);
        let update =
            if is_finite { iterated(dtype, growth, steps, rows.min(columns)) } else { copy() };
        let d = DType::F32;
        let norm = case.reads("norm", &[1], d, Fill::Values(vec![norm]));
        let parameter = case.updates("parameter", &shape, d, Fill::normal(0.05), update);
        let gradient = Fill::normal(loss_scale.into());
        let gradient = case.updates("gradient", &shape, d, gradient, copy());
        let momentum = case.updates("momentum", &shape, d, Fill::normal(1.0), changed());
        case.case(Op::Muon { norm, parameter, gradient, momentum, muon })
    }
}
