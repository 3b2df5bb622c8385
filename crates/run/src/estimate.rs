//! The least time that a job can take on a card: a roofline, op by op.
//!
//! An op takes at least the time of its matrix products at the card's peak rate, and at least the
//! time to move its bytes at the card's bandwidth. Ops run one after another, so the bounds add
//! up. No card is needed: programs are data.

use fitgpt_config::Precision;
use fitgpt_fit::device::Rates;
use fitgpt_program::{Op, Program};
use serde::Serialize;

use super::bench::TimedProgram;

/// Which of the two bounds is higher.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum BoundBy {
    /// Arithmetic.
    Flops,
    /// Memory bandwidth.
    Bytes,
}

/// All ops of a kind in one program.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bound {
    /// The op's name.
    pub op: &'static str,
    /// How many there are.
    pub count: usize,
    /// Floating-point operations of their matrix products.
    pub flops: u64,
    /// A lower bound of the bytes that they move.
    pub bytes: u64,
    /// Time of `flops` at the peak rate of the units that execute them.
    pub flops_ms: f64,
    /// Time of `bytes` at the memory's bandwidth.
    pub bytes_ms: f64,
    /// Lower bound of the time: the higher bound of each op, summed.
    pub ms: f64,
    /// Which bound is higher over all these ops.
    pub limit: BoundBy,
}

/// The bounds of one program on a card that runs nothing else.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Estimated {
    /// As `bench` measures it.
    pub name: &'static str,
    /// Tokens of one run.
    pub tokens: u64,
    /// Lower bound of the time.
    pub ms: f64,
    /// Its ops by kind, longest first.
    pub ops: Vec<Bound>,
}

/// The bounds of `program`, whose activations are stored as `precision`.
pub fn estimate(program: &Program, tokens: u64, precision: Precision, rates: &Rates) -> Estimated {
    let mut ops: Vec<Bound> = Vec::new();
    for op in program.ops() {
        let (flops, bytes) = (op.flops(program), op.moved_bytes(program).get());
        let flops_ms = flops as f64 / rate_of(op, precision, rates) * 1e3;
        let bytes_ms = bytes as f64 / rates.bytes_per_s * 1e3;
        let op = op.name();
        let at = ops.iter().position(|bound| bound.op == op).unwrap_or_else(|| {
            let (flops_ms, bytes_ms, ms) = (0.0, 0.0, 0.0);
            let limit = BoundBy::Bytes;
            ops.push(Bound { op, count: 0, flops: 0, bytes: 0, flops_ms, bytes_ms, ms, limit });
            ops.len() - 1
        });
        let bound = &mut ops[at];
        bound.count += 1;
        bound.flops = bound.flops.saturating_add(flops);
        bound.bytes = bound.bytes.saturating_add(bytes);
        bound.flops_ms += flops_ms;
        bound.bytes_ms += bytes_ms;
        bound.ms += flops_ms.max(bytes_ms);
        bound.limit = if bound.flops_ms > bound.bytes_ms { BoundBy::Flops } else { BoundBy::Bytes };
    }
    ops.sort_by(|a, b| b.ms.total_cmp(&a.ms));
    Estimated { name: program.name(), tokens, ms: ops.iter().map(|bound| bound.ms).sum(), ops }
}

/// The peak rate for the products of an op: tensor cores if the activations are half precision,
/// except for attention with a cache and for heads that are too wide for them.
fn rate_of(op: &Op, precision: Precision, rates: &Rates) -> f64 {
    /// As in `crates/gpu/src/kernels/tensor_attention.rs`.
    const WIDEST_HEAD: u32 = 128;
    match (op, precision) {
        (Op::CachedAttention { .. }, _) | (_, Precision::Float32) => rates.float32_flops_per_s,
        (Op::Attention { heads, .. } | Op::AttentionBackward { heads, .. }, _)
            if heads.channels > WIDEST_HEAD =>
        {
            rates.float32_flops_per_s
        }
        (_, Precision::Float16 | Precision::Bfloat16) => rates.half_flops_per_s,
    }
}

impl Bound {
    /// The measured time of the same ops.
    pub fn measured_ms(&self, timed: &TimedProgram) -> f64 {
        timed.ops.iter().filter(|kind| kind.op == self.op).map(|kind| kind.ms).sum()
    }
}

#[cfg(test)]
mod tests {
    use fitgpt_config::Written;
    use fitgpt_fit::device;
    use fitgpt_model::{job::Job, programs::TrainingPrograms};
    use fitgpt_program::Names;

    use super::*;

    /// Round numbers: 100 GB/s, 10 TFLOP/s, 20 TFLOP/s.
    const ROUND: Rates =
        Rates { bytes_per_s: 100e9, float32_flops_per_s: 10e12, half_flops_per_s: 20e12 };

    /// One layer of 64 channels and one head, 2 sequences of 32 tokens, a vocabulary of 128.
    fn programs(precision: Precision) -> TrainingPrograms {
        let mut written = Written::new();
        for (key, value) in [
            ("n_layer", "1"),
            ("n_head", "1"),
            ("n_embd", "64"),
            ("block_size", "32"),
            ("batch_size", "2"),
            ("bias", "False"),
        ] {
            written.set(key, value).unwrap();
        }
        let config = written.resolve().unwrap();
        let target = fitgpt_exec::cpu::CpuTarget::new(1, fitgpt_exec::cpu::isa::Isa::best());
        let budget = fitgpt_program::units::Bytes::new(1 << 30);
        Job::new(&config, 128, precision, &target, budget).training_programs(Names::Kept)
    }

    fn of<'e>(estimated: &'e Estimated, op: &str) -> &'e Bound {
        estimated.ops.iter().find(|bound| bound.op == op).unwrap()
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-12 * b.abs()
    }

    #[test]
    fn a_product_is_bound_by_the_larger_of_its_work_and_its_bytes() {
        let train =
            estimate(&programs(Precision::Bfloat16).train.program, 64, Precision::Bfloat16, &ROUND);
        // The one product with a GELU: 64 rows, from 64 channels to 256.
        let bound = of(&train, "linear_gelu");
        assert_eq!((bound.count, bound.flops), (1, 2 * 64 * 64 * 256));
        // x, the weight in float32, the product before and after the GELU.
        assert_eq!(bound.bytes, 2 * 64 * 64 + 4 * 64 * 256 + 2 * 2 * 64 * 256);
        assert!(near(bound.flops_ms, 2_097_152.0 / 20e12 * 1e3));
        assert!(near(bound.bytes_ms, 139_264.0 / 100e9 * 1e3));
        assert!(near(bound.ms, bound.bytes_ms));
        assert_eq!(bound.limit, BoundBy::Bytes);
    }

    #[test]
    fn half_types_double_the_rate_of_products_and_of_attention() {
        let [half, whole] = [Precision::Float16, Precision::Float32]
            .map(|precision| estimate(&programs(precision).train.program, 64, precision, &ROUND));
        let ms = |estimated, op| of(estimated, op).flops_ms;
        let linear = "linear_backward_weight";
        assert!(near(2.0 * ms(&half, linear), ms(&whole, linear)));
        assert!(near(2.0 * ms(&half, "attention"), ms(&whole, "attention")));
        // 64 tokens of 64 channels, two products over half of 32 keys each.
        assert_eq!(of(&half, "attention").flops, 64 * 64 * 32 * 2);
    }

    #[test]
    fn the_loss_passes_over_its_logits_five_times() {
        let train =
            estimate(&programs(Precision::Bfloat16).train.program, 64, Precision::Bfloat16, &ROUND);
        let bound = of(&train, "cross_entropy_backward");
        assert_eq!(bound.flops, 6 * 64 * 64 * 128);
        // One chunk: x twice, `d_x`, targets; the table twice, its gradient read and written.
        let table = 4 * 64 * 128;
        assert_eq!(bound.bytes, 3 * 2 * 64 * 64 + 4 * 64 + 4 * table + 5 * 4 * 64 * 128);
    }

    #[test]
    fn an_update_reads_and_writes_four_floats_a_parameter() {
        let update = programs(Precision::Bfloat16).update.program;
        let estimated = estimate(&update, 0, Precision::Bfloat16, &ROUND);
        let bound = of(&estimated, "adamw");
        // Tables, two norms and a last one, the four weights of a layer; the norm for each.
        let parameters = 128 * 64 + 32 * 64 + 3 * 64 + 12 * 64 * 64;
        assert_eq!(bound.bytes, 32 * parameters + 4 * bound.count as u64);
        assert_eq!((bound.flops, bound.limit), (0, BoundBy::Bytes));
        assert!(near(estimated.ms, estimated.ops.iter().map(|bound| bound.ms).sum()));
    }

    #[test]
    fn a_card_of_the_catalogue_has_the_rates_of_its_data_sheet() {
        let rates = device::find("RTX 4070").unwrap().rates().unwrap();
        let train = programs(Precision::Bfloat16).train.program;
        let bound = of(&estimate(&train, 64, Precision::Bfloat16, &rates), "linear_gelu").clone();
        assert!(near(bound.bytes_ms, bound.bytes as f64 / 504e6));
        assert!(near(bound.flops_ms, bound.flops as f64 / (5888.0 * 2.475e9 * 4.0) * 1e3));
    }
}
