//! Rotary positions: the angles by which queries and keys are rotated.
//!
//! Channel pair `i` of a head is rotated by `position · frequency(i)`, where `frequency(i) =
//! theta^(-2i/D)`, possibly rescaled for contexts longer than the model was trained on. A pair is
//! `(x[i], x[i + D/2])`, as in Hugging Face's checkpoints.

use std::f64::consts::TAU;

use crate::units::Real;

/// The angle per position of each pair of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Rope {
    /// The base of the frequencies.
    pub theta: Real,
    /// How the frequencies are changed for longer contexts.
    pub scaling: RopeScaling,
}

/// How frequencies are changed for longer contexts: Hugging Face's `rope_type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RopeScaling {
    /// `default`: not at all.
    None,
    /// `linear`: all divided by a factor.
    Linear {
        /// The divisor.
        factor: Real,
    },
    /// `llama3`: low frequencies divided by a factor, high ones kept, a blend between them.
    Llama3 {
        /// The divisor of low frequencies.
        factor: Real,
        /// Wavelengths above `original_positions / low` are low frequencies.
        low: Real,
        /// Wavelengths below `original_positions / high` are high frequencies.
        high: Real,
        /// The context that the model was first trained on.
        original_positions: u32,
    },
}

impl Rope {
    /// Unscaled rotation with this base.
    pub fn new(theta: f64) -> Self {
        Self { theta: Real::new(theta), scaling: RopeScaling::None }
    }

    /// Radians per position of each of the `head_channels / 2` pairs.
    pub fn frequencies(&self, head_channels: u32) -> Vec<f64> {
        let theta = self.theta.get();
        let channels = f64::from(head_channels);
        (0..head_channels / 2)
            .map(|pair| theta.powf(-2.0 * f64::from(pair) / channels))
            .map(|frequency| self.scaling.apply(frequency))
            .collect()
    }

    /// One row of `head_channels` for each position: the cosines of all pairs, then the sines.
    ///
    /// Frequencies and angles are rounded to float32 as `transformers` rounds them; the cosines
    /// of those angles are then exact to float32.
    pub fn rows(&self, positions: u32, head_channels: u32) -> impl Iterator<Item = Vec<f32>> {
        let frequencies = self.frequencies(head_channels);
        (0..positions).map(move |position| {
            let angles =
                frequencies.iter().map(|frequency| f64::from(*frequency as f32 * position as f32));
            let cosines = angles.clone().map(|angle| angle.cos() as f32);
            cosines.chain(angles.map(|angle| angle.sin() as f32)).collect()
        })
    }
}

impl RopeScaling {
    fn apply(self, frequency: f64) -> f64 {
        match self {
            Self::None => frequency,
            Self::Linear { factor } => frequency / factor.get(),
            Self::Llama3 { factor, low, high, original_positions } => {
                let original = f64::from(original_positions);
                let (factor, low, high) = (factor.get(), low.get(), high.get());
                let wavelength = TAU / frequency;
                if wavelength > original / low {
                    frequency / factor
                } else if wavelength < original / high {
                    frequency
                } else {
                    let kept = (original / wavelength - low) / (high - low);
                    (1.0 - kept) * frequency / factor + kept * frequency
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_fall_from_one_radian_per_position() {
        let frequencies = Rope::new(10_000.0).frequencies(64);
        assert_eq!(frequencies.len(), 32);
        assert!((frequencies[0] - 1.0).abs() < 1e-12);
        assert!((frequencies[31] - 10_000f64.powf(-62.0 / 64.0)).abs() < 1e-15);
    }

    #[test]
    fn a_row_has_the_cosines_then_the_sines_of_its_position() {
        let rows: Vec<_> = Rope::new(10_000.0).rows(3, 4).collect();
        assert_eq!(rows.len(), 3);
        assert_eq!(rows[0], [1.0, 1.0, 0.0, 0.0]);
        let row = &rows[2];
        assert!((f64::from(row[0]) - 2f64.cos()).abs() < 1e-7);
        assert!((f64::from(row[2]) - 2f64.sin()).abs() < 1e-7);
        assert!((f64::from(row[3]) - 0.02f64.sin()).abs() < 1e-7);
    }

    #[test]
    fn llama3_keeps_high_frequencies_divides_low_ones_and_blends_between() {
        let real = Real::new;
        let scaling = RopeScaling::Llama3 {
            factor: real(8.0),
            low: real(1.0),
            high: real(4.0),
            original_positions: 8192,
        };
        assert_eq!(scaling.apply(1.0).to_bits(), 1f64.to_bits());
        let low = TAU / 10_000.0;
        assert!((scaling.apply(low) - low / 8.0).abs() < 1e-18);
        // Wavelength 4096: kept by (2 - 1) / (4 - 1).
        let middle = TAU / 4096.0;
        let expected = middle * (2.0 / 3.0 / 8.0 + 1.0 / 3.0);
        assert!((scaling.apply(middle) - expected).abs() < 1e-15);
        let linear = RopeScaling::Linear { factor: real(4.0) };
        assert!((linear.apply(1.0) - 0.25).abs() < 1e-15);
    }
}
