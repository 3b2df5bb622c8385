//! Compares public reports of real cards with the plan: the table in `docs/real-cards.md`,
//! including wrong predictions.
//!
//! `real_cards.jsonl` has the source, the config and the figures of each report. This test computes
//! the tables and prints them if they differ from the documents.
//!
//! A message has the bytes that were allocated when a request failed, but not the op that made it.
//! They are compared with the nearest of all ops that allocate a tensor of that size. If there are
//! more than [`FEW`] such ops, one may match by chance, so the error is not counted.

use std::fmt::Write as _;

use fitgpt_fit::{
    device::{COMPILE_BYTES, CUDA_CONTEXT_BYTES, WORKSPACE_BYTES},
    torch::{CachingAllocator, TorchOptions, TorchPhase, TorchPrecision, phases},
};
use fitgpt_model::{
    family::gpt2::Gpt2Sizes,
    report::{Overhead, Verdict},
};
use fitgpt_program::{Access, Gelu, Program, TensorClass, memory::profile, units::Bytes};
use serde_json::Value;

/// The largest number of candidate ops for which a match is meaningful.
const FEW: usize = 8;

const MIB: f64 = 1024.0 * 1024.0;
const GIB: f64 = 1024.0 * MIB;

/// One public report.
struct CardReport {
    json: Value,
    programs: Vec<(TorchPhase, Program)>,
    compiles: bool,
}

impl CardReport {
    fn read(line: &str) -> Self {
        let json: Value = serde_json::from_str(line).unwrap();
        let config = &json["config"];
        let number = |key: &str, default: u64| config[key].as_u64().unwrap_or(default);
        let is = |key: &str, default: bool| config[key].as_bool().unwrap_or(default);
        let (batch, seq) = (number("batch_size", 12), number("block_size", 1024));
        let model = Gpt2Sizes {
            layers: number("n_layer", 12) as u32,
            heads: number("n_head", 12) as u32,
            channels: number("n_embd", 768) as u32,
            vocab: number("vocab_size", 50304) as u32,
            block: seq as u32,
            has_bias: is("bias", false),
            gelu: Gelu::Exact,
        }
        .model();
        let options = TorchOptions {
            batch,
            seq,
            accumulation: number("gradient_accumulation_steps", 40),
            eval_batch: batch,
            eval_seq: seq,
            precision: match config["dtype"].as_str() {
                Some("float32") => TorchPrecision::F32,
                Some("float16") => TorchPrecision::F16,
                _ => TorchPrecision::Bf16,
            },
            compile: is("compile", true),
            dropout: config["dropout"].as_f64().is_some_and(|rate| rate > 0.0),
            fused_attention: is("fused_attention", true),
            ddp_world: number("ddp_world", 1),
            ..TorchOptions::default()
        };
        let (programs, compiles) = (phases(&model, &options), options.compile);
        Self { json, programs, compiles }
    }

    fn text(&self, key: &str) -> &str {
        self.json[key].as_str().unwrap_or_default()
    }

    /// Most live bytes of the run; sampling is a separate run.
    fn peak(&self) -> f64 {
        let of_run = self.programs.iter().filter(|(phase, _)| *phase != TorchPhase::Sample);
        let peaks = of_run.map(|(_, program)| profile(program, &CachingAllocator).peak().unwrap());
        peaks.map(|peak| peak.bytes.get() as f64).fold(0.0, f64::max)
    }

    /// Memory in addition to the tensors; compiling takes some at the first call only.
    fn overhead(&self) -> Overhead {
        Overhead {
            context_bytes: CUDA_CONTEXT_BYTES,
            workspace_bytes: WORKSPACE_BYTES,
            compile_bytes: if self.compiles { COMPILE_BYTES } else { [Bytes::ZERO; 2] },
        }
    }

    fn verdict(&self) -> Verdict {
        let total = Bytes::new((self.json["total_gib"].as_f64().unwrap() * GIB) as u64);
        Verdict::of(Bytes::new(self.peak() as u64), &self.overhead(), total)
    }

    /// Tensors whose allocation prints like the request, each with the bytes that are allocated
    /// before it.
    fn candidates(&self) -> Vec<(String, f64)> {
        let wanted = self.text("requested");
        // Before the first update there are no moments.
        let is_first = self.text("phase") == "train_first";
        let wanted_phase = if is_first { "train" } else { self.text("phase") };
        let is_phase = |phase: &TorchPhase| phase.name() == wanted_phase;
        let mut found = Vec::new();
        for (_, program) in self.programs.iter().filter(|(phase, _)| is_phase(phase)) {
            let held = profile(program, &CachingAllocator);
            for (index, op) in program.ops().iter().enumerate() {
                let operands = op.operands();
                let made = operands.iter().filter(|o| o.access == Access::Writes);
                let made: Vec<_> = made.map(|o| program.get(o.tensor)).collect();
                let Some(tensor) = made.iter().find(|t| printed(t.bytes().get()) == wanted) else {
                    continue;
                };
                let classes = TensorClass::ALL.iter().zip(held.by_op[index]);
                let counted = classes.filter(|(c, _)| !(is_first && **c == TensorClass::Optimizer));
                let live: u64 = counted.map(|(_, bytes)| bytes.get()).sum();
                let new: u64 = made.iter().map(|t| t.bytes().get().next_multiple_of(512)).sum();
                found.push((tensor.name.clone(), (live - new) as f64));
            }
        }
        found
    }
}

/// How PyTorch prints the allocation of a tensor: rounded to segments, then to two decimals.
fn printed(bytes: u64) -> String {
    let segment = match bytes {
        0..=1_048_576 => 2 << 20,
        1_048_577..10_485_760 => 20 << 20,
        _ => bytes.next_multiple_of(2 << 20),
    };
    match segment as f64 {
        large if large > GIB => format!("{:.2} GiB", large / GIB),
        small => format!("{:.2} MiB", small / MIB),
    }
}

/// Counts over all reports.
#[derive(Default)]
struct ReportTally {
    requests: usize,
    requests_found: usize,
    errors: Vec<f64>,
    outcomes: usize,
    agreeing: usize,
    undecided: usize,
    /// Bytes that are neither free nor held by PyTorch.
    outside: Vec<f64>,
}

/// The keys of a config that differ from nanoGPT's defaults.
fn shown(config: &Value) -> String {
    let pairs = config.as_object().unwrap().iter();
    let one = |(key, value): (&String, &Value)| {
        let short = match key.as_str() {
            "gradient_accumulation_steps" => "accumulation",
            key => key,
        };
        format!("{short} {}", value.to_string().trim_matches('"'))
    };
    pairs.map(one).collect::<Vec<_>>().join(", ")
}

fn table(rows: &[CardReport]) -> (String, ReportTally) {
    let mut text = "| source | card | config | the card | the plan | error |\n\
                    |---|---|---|---|---|--:|\n"
        .to_owned();
    let mut tally = ReportTally::default();
    for row in rows {
        let (mut card, mut plan, mut error) = (Vec::new(), Vec::new(), Vec::new());
        if let Some(outcome) = row.json["outcome"].as_str() {
            tally.outcomes += 1;
            let verdict = row.verdict();
            let agrees = match verdict {
                Verdict::Fits => outcome == "ran",
                Verdict::No => outcome == "oom",
                Verdict::Tight => {
                    tally.undecided += 1;
                    true
                }
            };
            tally.agreeing += usize::from(agrees && verdict != Verdict::Tight);
            card.push(if outcome == "ran" { "ran" } else { "out of memory" }.to_owned());
            let word = match verdict {
                Verdict::Fits => "fits",
                Verdict::Tight => "tight",
                Verdict::No => "does not fit",
            };
            plan.push(format!("{word} ({:.2} GiB of tensors)", row.peak() / GIB));
            if !agrees {
                error.push("wrong".to_owned());
            }
        }
        if let Some(used) = row.json["used_gib"].as_f64() {
            card.push(format!("about {used} GB used"));
            let [low, high] = row.overhead().range().map(|b| (row.peak() + b.get() as f64) / 1e9);
            plan.push(format!("{low:.1} to {high:.1} GB with the overhead"));
            let nearest = used.clamp(low, high);
            error.push(format!("{:+.0} %", (nearest / used - 1.0) * 100.0));
        }
        let requested = row.text("requested");
        if !requested.is_empty() {
            tally.requests += 1;
            card.push(format!("asked for {requested}"));
            let candidates = row.candidates();
            tally.requests_found += usize::from(!candidates.is_empty());
            let mut names: Vec<_> =
                candidates.iter().map(|(name, _)| without_layer(name)).collect();
            names.sort();
            names.dedup();
            plan.push(match &names[..] {
                [] => "no tensor of this size".to_owned(),
                [first, second, third, rest @ ..] if !rest.is_empty() => {
                    format!("`{first}`, `{second}`, `{third}` and {} more", rest.len())
                }
                names => format!("`{}`", names.join("`, `")),
            });
            if let Some(held) = row.json["allocated_gib"].as_f64() {
                card.push(format!("{held} GiB allocated"));
                let distance = |at: &f64| (at / GIB - held).abs();
                let nearest = candidates.iter().map(|(_, at)| *at);
                let nearest = nearest.min_by(|a, b| distance(a).total_cmp(&distance(b)));
                if let Some(at) = nearest {
                    let share = at / GIB / held - 1.0;
                    let places = candidates.len();
                    plan.push(format!("{:.2} GiB held there", at / GIB));
                    if places <= FEW {
                        tally.errors.push(share.abs());
                        error.push(format!("{:+.1} %", share * 100.0));
                    } else {
                        error.push(format!("({:+.1} %, nearest of {places})", share * 100.0));
                    }
                }
            }
        }
        let free = row.json["free_mib"].as_f64().map(|free| free / 1024.0);
        if let (Some(free), Some(reserved)) = (free, row.json["reserved_gib"].as_f64()) {
            tally.outside.push(row.json["total_gib"].as_f64().unwrap() - free - reserved);
        }
        let source = row.text("source");
        let short = source.trim_start_matches("https://").trim_start_matches("github.com/");
        let inferred = match row.text("inferred") {
            "" => String::new(),
            inferred => format!("<br>*inferred: {inferred}*"),
        };
        let code = match row.text("code") {
            "nanoGPT" => String::new(),
            code => format!("{code}: "),
        };
        let _ = writeln!(
            text,
            "| [{short}]({source}) | {} | {code}{}{inferred} | {} | {} | {} |",
            row.text("card"),
            shown(&row.json["config"]),
            card.join("; "),
            plan.join("; "),
            error.join("; "),
        );
    }
    (text, tally)
}

/// `h.3.attn.scores` as `h.*.attn.scores`: every layer has one.
fn without_layer(name: &str) -> String {
    let is_layer = |part: &str| !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit());
    let parts = name.split('.').map(|part| if is_layer(part) { "*" } else { part });
    parts.collect::<Vec<_>>().join(".")
}

fn summary(rows: &[CardReport], tally: &ReportTally) -> String {
    let mut errors = tally.errors.clone();
    errors.sort_by(f64::total_cmp);
    let (median, most) = (errors[errors.len() / 2] * 100.0, errors[errors.len() - 1] * 100.0);
    let mut outside = tally.outside.clone();
    outside.sort_by(f64::total_cmp);
    let outside: Vec<_> = outside.iter().map(|gib| format!("{gib:.2}")).collect();
    let outside = outside.join(", ");
    format!(
        "{} reports. Of {} failing requests {} are the size of a tensor that the plan has in that \
         phase. For {} of them the message says how much was allocated and few ops come into \
         question: there the plan is off by {median:.1} % in the median and {most:.0} % at most. Of {} \
         outcomes the verdict agrees with {}, {} are undecided (tight), {} are wrong. Neither free nor \
         PyTorch's (context, libraries, and other processes, if any): {outside} GiB.\n",
        rows.len(),
        tally.requests,
        tally.requests_found,
        errors.len(),
        tally.outcomes,
        tally.agreeing,
        tally.undecided,
        tally.outcomes - tally.agreeing - tally.undecided,
    )
}

#[test]
fn the_published_table_is_the_computed_one() {
    let rows: Vec<_> = include_str!("real_cards.jsonl").lines().map(CardReport::read).collect();
    assert!(rows.len() >= 15);
    let (table, tally) = table(&rows);
    let computed = format!("{}\n{table}", summary(&rows, &tally));
    let page = include_str!("../../../docs/real-cards.md");
    let published = page.split("<!-- computed -->").nth(1).unwrap_or_default().trim();
    assert!(published == computed.trim(), "docs/real-cards.md should hold:\n\n{computed}");
}
