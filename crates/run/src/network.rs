//! An estimate of the time that ranks spend on messages: the bytes of a step divided by the rate of
//! a network.
//!
//! It counts the gradients of each round of lanes and the updated weights, in the exchanges of
//! [`super::lanes`]. An exchange starts when the last micro-batch of the lane has finished with its
//! gradients and the previous exchange has ended; time after the end of the micro-batch is exposed,
//! and so is the time of the weights. Ops are assumed to take time in proportion to their FLOPs.
//! Not counted: latency, copies between a card and its host, and the additions.

use std::str::FromStr;

use fitgpt_model::{job::Job, shard::Share, state::TrainingState};
use fitgpt_program::Names;
use serde::Serialize;

use super::lanes::Schedule;

/// A network's rate in each direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NetworkRate {
    /// In bits per second, as networks are sold.
    pub bits_per_s: f64,
}

/// A text that is not a rate such as `10Gb`.
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
    /// The time of all messages.
    pub transfer_s: f64,
    /// The part of it that does not overlap with computation, `[low, high]`, if the compute time is
    /// known.
    pub exposed_s: Option<[f64; 2]>,
    /// The share of a step that is computation, `[low, high]`, if the compute time is known.
    pub efficiency: Option<[f64; 2]>,
}

impl StepTraffic {
    /// The messages of a step of `job`, which computes for `compute_s`, `[low, high]`.
    pub fn of(job: &Job, rate: NetworkRate, compute_s: Option<[f64; 2]>) -> Self {
        let training = &job.training;
        let Share { rank, ranks } = training.share;
        let parameters = job.model.parameters();
        let ranges = Share::all_ranges(ranks, &parameters, &training.optimizer);
        let program = &job.training_programs(Names::Kept).train.program;
        let state = TrainingState::new(&job.model, training);
        let schedule = Schedule::new(program, &state, &ranges);
        let rounds = training.lanes / u64::from(ranks);

        let bytes = |rank: usize, at| schedule.bytes(rank, at) as u64;
        // Gradients of other ranks' shards are sent, those of the own shard are received from every
        // other rank; for weights it is the opposite.
        let exchange = |at| {
            let everybody = u64::from(ranks - 1) * bytes(rank as usize, at);
            let all: u64 = (0..ranks as usize).map(|rank| bytes(rank, at)).sum();
            [all - bytes(rank as usize, at), everybody]
        };
        let exchanges: Vec<_> = (0..schedule.complete.len()).map(exchange).collect();
        let others: u64 = exchanges.iter().map(|[others, _]| others).sum();
        let everybody: u64 = exchanges.iter().map(|[_, everybody]| everybody).sum();
        let seconds =
            |[sent, received]: [u64; 2]| 8.0 * sent.max(received) as f64 / rate.bits_per_s;
        let gradients_s: f64 = exchanges.iter().copied().map(seconds).sum();
        let weights_s = gradients_s; // the same messages in the opposite direction

        let all_flops = program.flops().max(1) as f64;
        let mut flops = 0;
        let done: Vec<_> = std::iter::once(0.0)
            .chain(program.ops().iter().map(|op| {
                flops = u64::saturating_add(flops, op.flops(program));
                flops as f64 / all_flops
            }))
            .collect();
        let micro_batches = (training.accumulation / u64::from(ranks)) as f64;
        let exposed = |compute_s: f64| {
            let micro_batch_s = compute_s / micro_batches;
            let end_s = schedule.complete.iter().zip(&exchanges).fold(0.0, |end_s: f64, each| {
                let (complete, exchange) = each;
                end_s.max(done[*complete] * micro_batch_s) + seconds(*exchange)
            });
            rounds as f64 * (end_s - micro_batch_s).max(0.0) + weights_s
        };
        let efficiency = |s: f64| s / (s + exposed(s));
        Self {
            sent_bytes: rounds * others + everybody,
            received_bytes: rounds * everybody + others,
            transfer_s: rounds as f64 * gradients_s + weights_s,
            // The longer the computation, the more of the transfer is hidden.
            exposed_s: compute_s.map(|[low, high]| [exposed(high), exposed(low)]),
            efficiency: compute_s.map(|seconds| seconds.map(efficiency)),
        }
    }
}

#[cfg(test)]
mod tests {
    use fitgpt_config::{Precision, Written};
    use fitgpt_fit::torch::CachingAllocator;
    use fitgpt_model::shard::Share;
    use fitgpt_program::units::Bytes;

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
        assert!((traffic.transfer_s / (1.5 * all / 1e9) - 1.0).abs() < 0.01, "{traffic:?}");
        let [low, high] = traffic.efficiency.unwrap();
        let [least, most] = traffic.exposed_s.unwrap();
        assert!(low < high && (low - 1.0 / (1.0 + most)).abs() < 1e-12, "{traffic:?}");
        // A micro-batch of a tenth of a second hides part of a gradient that takes 0.37 s; the
        // weights are never hidden.
        let weights_s = 0.75 * all / 1e9;
        assert!(least > weights_s && most < traffic.transfer_s, "{traffic:?}");
        // A long one hides all but the embedding, which is complete at the end.
        let [least, _] = StepTraffic::of(&job(4, "0"), rate, Some([400.0; 2])).exposed_s.unwrap();
        let embedding_s = 0.75 * 4.0 * (50304.0 + 1024.0) * 768.0 / 1e9;
        assert!((least - weights_s - embedding_s).abs() < 0.02, "{least}");
        // Two rounds send the gradients twice.
        let traffic = StepTraffic::of(&job(4, "8"), rate, None);
        assert!(close(traffic.sent_bytes, 2.25 * all), "{traffic:?}");
        let traffic = StepTraffic::of(&job(2, "2"), rate, None);
        assert_eq!((traffic.exposed_s, traffic.efficiency), (None, None));
    }
}
