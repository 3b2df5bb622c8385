//! Muon as `torch.optim.Muon` computes it.
//!
//! ```text
//! m += (1 - µ) (g - m);  u = g + µ (m - g), or m without Nesterov
//! X = u / max(‖u‖, ε);  repeated: G = X Xᵀ;  X = a X + (b G + c G²) X
//! p = p (1 - lr · weight_decay) - lr · adjustment · X
//! ```
//!
//! With more rows than columns, X is transposed for the iteration. `u`, `X`, `G` and `b G + c G²`
//! are rounded to the iteration's type.

use fitgpt_program::{Muon, Op, units::DType};

use super::{
    misplaced,
    update::gradient_factor,
    values::{OpValues, rounded},
};

/// A row-major matrix.
#[derive(Clone)]
struct Matrix {
    rows: usize,
    columns: usize,
    values: Vec<f64>,
}

impl Matrix {
    fn transposed(&self) -> Self {
        let at = |i: usize| self.values[i % self.rows * self.columns + i / self.rows];
        let values = (0..self.values.len()).map(at).collect();
        Self { rows: self.columns, columns: self.rows, values }
    }

    fn times(&self, other: &Self) -> Self {
        let mut values = vec![0.0; self.rows * other.columns];
        for (i, value) in values.iter_mut().enumerate() {
            let (row, column) = (i / other.columns, i % other.columns);
            let left = &self.values[row * self.columns..][..self.columns];
            let right = other.values[column..].iter().step_by(other.columns);
            *value = left.iter().zip(right).map(|(l, r)| l * r).sum();
        }
        Self { rows: self.rows, columns: other.columns, values }
    }

    /// `factor · self + scale · other`, rounded to `dtype`.
    fn plus(&self, factor: f64, other: &Self, scale: f64, dtype: DType) -> Self {
        let pairs = self.values.iter().zip(&other.values);
        let values: Vec<_> = pairs.map(|(x, y)| factor * x + scale * y).collect();
        Self { values: rounded(dtype, &values), ..*self }
    }
}

/// Approximately the closest matrix with orthonormal rows or columns.
fn orthogonal(u: &Matrix, muon: &Muon) -> Matrix {
    if u.rows > u.columns {
        return orthogonal(&u.transposed(), muon).transposed();
    }
    let dtype = muon.dtype;
    let [a, b, c] = muon.coefficients.map(f64::from);
    let u = rounded(dtype, &u.values).in_shape(u);
    let length = u.values.iter().map(|x| x * x).sum::<f64>().sqrt().max(muon.epsilon.into());
    let divided: Vec<_> = u.values.iter().map(|x| x / length).collect();
    let mut x = rounded(dtype, &divided).in_shape(&u);
    for _ in 0..muon.steps {
        let gram = x.times(&x.transposed());
        let gram = rounded(dtype, &gram.values).in_shape(&gram);
        let polynomial = gram.plus(b, &gram.times(&gram), c, dtype);
        x = x.plus(a, &polynomial.times(&x), 1.0, dtype);
    }
    x
}

trait InShape {
    fn in_shape(self, of: &Matrix) -> Matrix;
}

impl InShape for Vec<f64> {
    fn in_shape(self, of: &Matrix) -> Matrix {
        Matrix { values: self, rows: of.rows, columns: of.columns }
    }
}

pub(super) fn run(op: &Op, values: &mut OpValues<'_, '_>) {
    let Op::Muon { norm, parameter, gradient, momentum, ref muon } = *op else { misplaced(op) };
    let norm = values.load(norm)[0];
    let [rows, columns] = values.shape(parameter);
    let mut gradient = values.take(gradient);
    let gradients = gradient.get();
    gradient.put(0, &vec![0.0; gradients.len()]);
    if !norm.is_finite() {
        return;
    }
    let factor = gradient_factor(muon.grad_clip, values.arguments, norm);
    let lr = f64::from(values.arguments.lr) * f64::from(muon.lr_ratio);
    let [mut parameter, mut momentum] = [parameter, momentum].map(|tensor| values.take(tensor));
    let (mut p, mut m) = (parameter.get(), momentum.get());
    let mu = f64::from(muon.momentum);
    let mut u = Vec::with_capacity(m.len());
    for (m, gradient) in m.iter_mut().zip(gradients) {
        let g = gradient * factor;
        *m += (1.0 - mu) * (g - *m);
        u.push(if muon.nesterov { g + mu * (*m - g) } else { *m });
    }
    let x = orthogonal(&Matrix { rows, columns, values: u }, muon);
    let decay_factor = 1.0 - lr * f64::from(muon.weight_decay);
    let lr = lr * muon.adjustment(rows as u64, columns as u64);
    for (p, x) in p.iter_mut().zip(x.values) {
        *p = *p * decay_factor - lr * x;
    }
    parameter.put(0, &p);
    momentum.put(0, &m);
}

#[cfg(test)]
mod tests {
    use fitgpt_program::AdjustLr;

    use super::*;

    const MUON: Muon = Muon {
        lr_ratio: 1.0,
        adjust: AdjustLr::Original,
        momentum: 0.95,
        nesterov: true,
        steps: 5,
        coefficients: [3.4445, -4.775, 2.0315],
        epsilon: 1e-7,
        dtype: DType::F32,
        weight_decay: 0.0,
        grad_clip: 0.0,
    };

    #[test]
    fn singular_values_become_about_one() {
        // A diagonal matrix is its own singular values.
        let values = vec![3.0, 0.0, 0.0, 0.0, 0.0, -0.2, 0.0, 0.0];
        let x = orthogonal(&Matrix { rows: 2, columns: 4, values }, &MUON).values;
        assert!((0.6..1.3).contains(&x[0]) && (-1.3..-0.6).contains(&x[5]), "{x:?}");
        assert!(x.iter().enumerate().all(|(i, x)| i == 0 || i == 5 || x.abs() < 1e-12));
    }

    #[test]
    fn a_cubic_iteration_with_its_usual_coefficients_converges_to_one() {
        let muon = Muon { coefficients: [1.5, -0.5, 0.0], steps: 60, ..MUON };
        let values = vec![1.0, 2.0, 3.0, 4.0, 5.0, 7.0];
        let x = orthogonal(&Matrix { rows: 3, columns: 2, values }, &muon);
        let gram = x.transposed().times(&x).values;
        for (found, expected) in gram.iter().zip([1.0, 0.0, 0.0, 1.0]) {
            assert!((found - expected).abs() < 1e-5, "{gram:?}");
        }
    }

    #[test]
    fn a_matrix_of_zeros_stays_zero() {
        let zeros = Matrix { rows: 2, columns: 2, values: vec![0.0; 4] };
        assert!(orthogonal(&zeros, &MUON).values.iter().all(|x| *x == 0.0));
    }
}
