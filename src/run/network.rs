//! The time that ranks spend on messages, before anything is rented: bytes of a step over the rate
//! of a network.
//!
//! Counted are the gradients of each round of lanes and the updated weights, as [`super::lanes`]
//! sends them. Not counted: latency, and copies between a card and its host. Messages and
//! computation do not overlap, so all of the time is exposed.

use std::str::FromStr;

use fitgpt_plan::{job::Job, model::Parameter};
use serde::Serialize;

/// A network's rate in each direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkRate {
    /// In bits per second, as networks are sold.
    pub bits_per_s: f64,
}

/// Not a rate such as `10Gb`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a network's rate is a number with Mb or Gb, bits per second: 10Gb")]
pub struct NotARate;

impl FromStr for NetworkRate {
    type Err = NotARate;

    fn from_str(text: &str) -> Result<Self, NotARate> {
        let text = text.trim().trim_end_matches("/s");
        let text = text.strip_suffix("it").unwrap_or(text); // Gbit
        let units = [("Gb", 1e9), ("Mb", 1e6)];
        let found = units.iter().find_map(|(unit, bits)| Some((text.strip_suffix(unit)?, bits)));
        let (number, bits) = found.ok_or(NotARate)?;
        let number: f64 = number.trim().parse().map_err(|_| NotARate)?;
        let bits_per_s = number * bits;
        let is_rate = bits_per_s.is_finite() && bits_per_s > 0.0;
        if is_rate { Ok(Self { bits_per_s }) } else { Err(NotARate) }
    }
}

/// A rank's messages in one step.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct StepTraffic {
    /// To all other ranks.
    pub sent_bytes: u64,
    /// From all other ranks.
    pub received_bytes: u64,
    /// While nothing else happens.
    pub exposed_s: f64,
    /// The share of a step that computes, `[low, high]`, if the time to compute is known.
    pub efficiency: Option<[f64; 2]>,
}

impl StepTraffic {
    /// The messages of a step of `job`, which computes for `compute_s`, `[low, high]`.
    pub fn of(job: &Job, rate: NetworkRate, compute_s: Option<[f64; 2]>) -> Self {
        let training = &job.training;
        let parameters = job.model.parameters();
        let all: u64 = parameters.iter().map(Parameter::count).sum();
        let ranges = training.share.ranges(&parameters, &training.optimizer);
        let own: u64 = ranges.iter().map(|range| range.end - range.start).sum();
        let ranks = u64::from(training.share.ranks);
        let rounds = training.lanes / ranks;
        // The gradients of others' shards go out, the own one comes in from everybody; the weights
        // the other way.
        let (others, everybody) = (4 * (all - own), 4 * own * (ranks - 1));
        let sent_bytes = rounds * others + everybody;
        let received_bytes = rounds * everybody + others;
        let exposed_s = 8.0 * sent_bytes.max(received_bytes) as f64 / rate.bits_per_s;
        let efficiency = compute_s.map(|seconds| seconds.map(|s| s / (s + exposed_s)));
        Self { sent_bytes, received_bytes, exposed_s, efficiency }
    }
}

#[cfg(test)]
mod tests {
    use fitgpt_plan::{
        config::{Precision, Written},
        shard::Share,
        torch::CachingAllocator,
        units::Bytes,
    };

    use super::*;

    #[test]
    fn rates_are_bits_per_second() {
        let bits = |text: &str| text.parse::<NetworkRate>().map(|rate| rate.bits_per_s);
        for text in ["10Gb", "10 Gb/s", "10Gbit", "10000Mb", "10000 Mbit/s"] {
            assert_eq!(bits(text), Ok(1e10), "{text}");
        }
        for text in ["10", "10GB", "-1Gb", "0Mb", "Gb", "infGb"] {
            assert_eq!(bits(text), Err(NotARate), "{text}");
        }
    }

    #[test]
    fn four_ranks_send_three_quarters_of_gradients_and_weights() {
        let job = |ranks, lanes: &str| {
            let mut written = Written::new();
            written.set("lanes", lanes).unwrap();
            let config = written.resolve().unwrap();
            let share = Share { rank: 1, ranks };
            let limit = Bytes::new(1 << 60);
            let target = CachingAllocator;
            Job::of_share(&config, 50304, Precision::Float32, &target, limit, share)
        };
        let rate = "8Gb".parse().unwrap(); // a gigabyte per second
        let traffic = StepTraffic::of(&job(4, "0"), rate, Some([1.0, 4.0]));
        let all = 4.0 * 124.3e6; // bytes of the gradient
        let close = |bytes: u64, expected: f64| (bytes as f64 / expected - 1.0).abs() < 0.01;
        assert!(close(traffic.sent_bytes, 1.5 * all), "{traffic:?}");
        assert!(close(traffic.received_bytes, 1.5 * all), "{traffic:?}");
        let [low, high] = traffic.efficiency.unwrap();
        assert!(low < high && (low - 1.0 / (1.0 + traffic.exposed_s)).abs() < 1e-12);
        // Two rounds send the gradients twice.
        let traffic = StepTraffic::of(&job(4, "8"), rate, None);
        assert!(close(traffic.sent_bytes, 2.25 * all), "{traffic:?}");
        assert_eq!(StepTraffic::of(&job(2, "2"), rate, None).efficiency, None);
    }
}
