//! Estimates how long a run takes on a card: the bound of the card's rates, divided by an efficiency.
//!
//! The bound is that of [`super::estimate`]. For PyTorch it is the time of the same matrix products
//! at the card's peak rate, including attention, plus the bytes of the update. The efficiency depends
//! on kernels and drivers, so it is a range, taken from public measurements.

use fitgpt_config::{Config, Precision};
use fitgpt_fit::device::Rates;
use fitgpt_model::job::Job;
use fitgpt_program::{Names, Program};
use serde::Serialize;

use super::{estimate::estimate, schedule};

/// The implementation that runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kernels {
    /// FitGPT's kernels.
    Fitgpt,
    /// PyTorch in eager mode.
    Eager,
    /// PyTorch with `torch.compile`.
    Compiled,
    /// FitGPT's kernels on a CPU whose rate was measured.
    FitgptOnCpu,
    /// PyTorch there, eager or compiled.
    TorchOnCpu,
}

impl Kernels {
    /// The expected share of the bound, `[low, high]`.
    ///
    /// Compiled nanoGPT of 124M parameters in bfloat16: 78 % on an RTX 4070 (56,100 tokens/s), 52 %
    /// on an RTX 4090 (106,300). Cards with faster tensor cores wait for memory and for element-wise
    /// kernels: nanoGPT's README has 135 ms per iteration of 12 × 1,024 tokens on an A100, 25 %, and
    /// 250 ms in eager mode, 14 %. Other such cards are extrapolated. FitGPT has not been measured on a
    /// card: its range is a guess, wide on purpose.
    pub fn efficiency(self, rates: &Rates) -> [f64; 2] {
        // 2 on GeForce cards, 4 to 16 on cards for workstations and data centers.
        let has_fast_tensor_cores = rates.half_flops_per_s > 3.0 * rates.float32_flops_per_s;
        match (self, has_fast_tensor_cores) {
            (Self::Fitgpt, false) => [0.2, 0.8],
            (Self::Eager, false) => [0.2, 0.45],
            (Self::Compiled, false) => [0.4, 0.85],
            (Self::Fitgpt, true) => [0.1, 0.6],
            (Self::Eager, true) => [0.1, 0.3],
            (Self::Compiled, true) => [0.2, 0.6],
            (Self::FitgptOnCpu, _) => [0.2, 0.9],
            (Self::TorchOnCpu, _) => [0.1, 0.8],
        }
    }
}

/// Seconds as `[low, high]`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct RunTime {
    /// One step with all its micro-batches.
    pub step_s: [f64; 2],
    /// Training tokens per second, `[low, high]`.
    pub tokens_per_s: [f64; 2],
    /// Every step and every evaluation up to `max_iters`.
    pub run_s: [f64; 2],
    /// The assumed share of the card's bound, `[low, high]`.
    pub efficiency: [f64; 2],
}

impl RunTime {
    /// How long `job`, the run of `config`, takes on a card with `rates`.
    pub fn of(
        config: &Config,
        job: &Job,
        precision: Precision,
        kernels: Kernels,
        rates: &Rates,
    ) -> Self {
        let programs = job.training_programs(Names::Kept);
        let [train, update, evaluate] = programs.phases();
        let bound_s = |program: &Program| match (kernels, program.flops()) {
            (
                Kernels::Eager | Kernels::Compiled | Kernels::FitgptOnCpu | Kernels::TorchOnCpu,
                1..,
            ) => program.flops() as f64 / rate(precision, rates),
            _ => estimate(program, 0, precision, rates).ms / 1e3,
        };
        // Ranks divide the micro-batches and the evaluated batches among themselves.
        let ranks = f64::from(job.training.share.ranks);
        let micro_batches = f64::from(config.gradient_accumulation_steps()) / ranks;
        let step_s = micro_batches * bound_s(train) + bound_s(update);
        // An evaluation covers both splits.
        let batches = 2 * job.eval_sequences / job.training.eval_batch.max(1);
        let evaluate_s = batches as f64 / ranks * bound_s(evaluate);
        // Iterations run from 0 to `max_iters`.
        let steps = config.max_iters() + 1;
        let evaluations = match kernels {
            Kernels::Fitgpt | Kernels::FitgptOnCpu => schedule::evaluations_from(config, 0),
            Kernels::Eager | Kernels::Compiled | Kernels::TorchOnCpu => {
                config.max_iters() / config.eval_interval().max(1) + 1
            }
        };
        let run_s = steps as f64 * step_s + evaluations as f64 * evaluate_s;
        let [low, high] = kernels.efficiency(rates);
        let tokens = config.effective_batch().tokens as f64;
        Self {
            step_s: [step_s / high, step_s / low],
            tokens_per_s: [tokens / step_s * low, tokens / step_s * high],
            run_s: [run_s / high, run_s / low],
            efficiency: [low, high],
        }
    }
}

/// The rate of matrix products.
fn rate(precision: Precision, rates: &Rates) -> f64 {
    match precision {
        Precision::Float32 => rates.float32_flops_per_s,
        Precision::Bfloat16 | Precision::Float16 => rates.half_flops_per_s,
    }
}

#[cfg(test)]
mod tests {
    use fitgpt_config::Written;
    use fitgpt_exec::cpu::{CpuTarget, isa::Isa};
    use fitgpt_fit::device;
    use fitgpt_program::units::Bytes;

    use super::*;

    /// nanoGPT's 124M, compiled, in bfloat16.
    fn time(card: &str, keys: &[(&str, &str)]) -> RunTime {
        let mut written = Written::new();
        for (key, value) in keys {
            written.set(key, value).unwrap();
        }
        let config = written.resolve().unwrap();
        let rates = device::find(card).unwrap().rates().unwrap();
        let (precision, target) = (Precision::Bfloat16, CpuTarget::new(1, Isa::best()));
        let job = Job::new(&config, 50304, precision, &target, Bytes::new(1 << 40));
        RunTime::of(&config, &job, precision, Kernels::Compiled, &rates)
    }

    #[test]
    fn public_measurements_are_inside_the_range() {
        for (card, batch, accumulation, measured) in [
            ("RTX 4070", "8", "64", 524_288.0 / 9.340), // lzwjava.github.io
            ("RTX 4090", "12", "40", 491_520.0 / 4.622), // karpathy/nanoGPT, pull request 225
            ("A100 40GB", "12", "1", 12_288.0 / 0.135), // karpathy/nanoGPT, README
        ] {
            let keys = [("batch_size", batch), ("gradient_accumulation_steps", accumulation)];
            let [low, high] = time(card, &keys).tokens_per_s;
            assert!(low < measured && measured < high, "{card}: {low} to {high}, {measured}");
        }
    }

    #[test]
    fn a_run_is_its_steps_and_its_evaluations() {
        let of = |iters: &str, interval: &str| {
            time("RTX 4070", &[("max_iters", iters), ("eval_interval", interval)])
        };
        let (ten, twenty) = (of("9", "100"), of("19", "100"));
        let more = twenty.run_s[0] - ten.run_s[0];
        assert!((more / (10.0 * ten.step_s[0]) - 1.0).abs() < 1e-9);
        // One evaluation at iteration 0, or three: 200 batches of each split, a third of the work.
        let evaluation_s = (of("19", "8").run_s[0] - twenty.run_s[0]) / 2.0;
        let batches = evaluation_s / (ten.step_s[0] / 40.0);
        assert!((130.0..140.0).contains(&batches), "{batches}");
    }
}
