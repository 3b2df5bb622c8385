//! How the micro-batches of a step can be divided among lanes.

/// No real step has more sequences, and the divisors of larger numbers take long to find.
const MOST_SEARCHED: u64 = 1 << 40;

/// Keys with which the micro-batches of a step can be divided among lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaneSplit {
    /// The same step in different micro-batches.
    Batch {
        /// Sequences in a micro-batch.
        batch_size: u32,
        /// Micro-batches, a multiple of the lanes.
        accumulation: u32,
    },
    /// Fewer lanes, because the step cannot be split into as many as requested.
    Lanes(u32),
}

impl LaneSplit {
    /// The split into a multiple of `lanes` micro-batches that is nearest to `accumulation` of
    /// `batch_size` sequences; if there is none, the largest number of lanes that works.
    pub fn near(batch_size: u32, accumulation: u32, lanes: u32) -> Self {
        let sequences = u64::from(batch_size) * u64::from(accumulation);
        let is_small = |n: u64| u32::try_from(n).is_ok();
        let fits =
            |n: &u64| n.is_multiple_of(lanes.into()) && is_small(*n) && is_small(sequences / n);
        let all = if sequences <= MOST_SEARCHED { divisors(sequences) } else { Vec::new() };
        let distance = |n: &u64| n.abs_diff(accumulation.into());
        if let Some(n) = all.into_iter().filter(fits).min_by_key(distance) {
            return Self::Batch { batch_size: (sequences / n) as u32, accumulation: n as u32 };
        }
        let fewer = divisors(accumulation.into()).into_iter().rev();
        let most = fewer.map(|n| n as u32).find(|n| *n <= lanes);
        Self::Lanes(most.unwrap_or(1))
    }

    /// The arguments.
    pub fn arguments(self) -> String {
        match self {
            Self::Batch { batch_size, accumulation } => {
                format!("--batch_size={batch_size} --gradient_accumulation_steps={accumulation}")
            }
            Self::Lanes(lanes) => format!("--lanes={lanes}"),
        }
    }
}

/// All divisors of `n`, ascending.
pub fn divisors(n: u64) -> Vec<u64> {
    let mut small: Vec<_> = (1..=n.isqrt()).filter(|d| n.is_multiple_of(*d)).collect();
    let large: Vec<_> = small.iter().rev().map(|d| n / d).filter(|d| n / d != *d).collect();
    small.extend(large);
    small
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_split_keeps_the_sequences_of_a_step() {
        let batch = |batch_size, accumulation| LaneSplit::Batch { batch_size, accumulation };
        assert_eq!(LaneSplit::near(12, 40, 40), batch(12, 40));
        assert_eq!(LaneSplit::near(12, 5, 4), batch(15, 4));
        assert_eq!(LaneSplit::near(64, 1, 4), batch(16, 4));
        assert_eq!(LaneSplit::near(4, 6, 4), batch(6, 4)); // 4 and 8 are equally near
        assert_eq!(LaneSplit::near(5, 9, 6), LaneSplit::Lanes(3)); // 45 has no such divisor
        assert_eq!(
            LaneSplit::near(12, 5, 4).arguments(),
            "--batch_size=15 --gradient_accumulation_steps=4"
        );
    }

    #[test]
    fn divisors_are_ascending_and_distinct() {
        assert_eq!(divisors(1), [1]);
        assert_eq!(divisors(36), [1, 2, 3, 4, 6, 9, 12, 18, 36]);
    }
}
