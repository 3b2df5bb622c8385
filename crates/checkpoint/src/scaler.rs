//! The loss scale of float16: as large as the gradients allow.
//!
//! PyTorch's rule: halved if a gradient overflows and the step is skipped, doubled after 2,000
//! steps without an overflow.

use serde::{Deserialize, Serialize};

/// Steps without overflow before the scale grows.
const GROWTH_INTERVAL: u32 = 2000;

/// The factor of the loss, and the number of steps without overflow.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Scaler {
    /// The scale; always 1 if activations are not float16.
    pub scale: f32,
    /// Steps since it changed.
    pub good_steps: u32,
    /// Whether it is adjusted at all.
    pub is_dynamic: bool,
    /// Steps skipped so far.
    pub skipped: u64,
}

impl Scaler {
    /// For float16.
    pub const DYNAMIC: Self = Self { scale: 65536.0, good_steps: 0, is_dynamic: true, skipped: 0 };

    /// For types whose range is float32's.
    pub const NONE: Self = Self { scale: 1.0, good_steps: 0, is_dynamic: false, skipped: 0 };

    /// Adjusts the scale after a step.
    pub fn update(&mut self, is_finite: bool) {
        if !self.is_dynamic {
            return;
        }
        if is_finite {
            self.good_steps += 1;
            if self.good_steps == GROWTH_INTERVAL {
                self.scale = (self.scale * 2.0).min(f32::MAX / 2.0);
                self.good_steps = 0;
            }
        } else {
            self.scale /= 2.0;
            self.good_steps = 0;
            self.skipped += 1;
        }
    }

    /// Whether it was halved so often that overflow can no longer be the reason.
    pub fn has_failed(&self) -> bool {
        self.is_dynamic && self.scale < 1.0 / 1024.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overflow_halves_and_enough_good_steps_double() {
        let mut scaler = Scaler::DYNAMIC;
        scaler.update(false);
        assert_eq!((scaler.scale, scaler.skipped), (32768.0, 1));
        for _ in 0..GROWTH_INTERVAL {
            scaler.update(true);
        }
        assert_eq!((scaler.scale, scaler.good_steps), (65536.0, 0));
    }

    #[test]
    fn a_static_scale_stays_one() {
        let mut scaler = Scaler::NONE;
        scaler.update(false);
        assert_eq!(scaler, Scaler::NONE);
    }
}
