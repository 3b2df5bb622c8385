//! The words: every English sentence of the doctor's, and no thought.
//!
//! Other languages are other files with the same functions.

use std::fmt::Write;

use crate::diagnosis::{
    Certainty, Datum, Diagnosis, Evidence, Finding, Kind, Next, Part, Phase, PhaseName, Tensor,
};

/// A size as PyTorch prints it.
pub fn size(bytes: u64) -> String {
    const GIB: f64 = (1_u64 << 30) as f64;
    const MIB: f64 = (1_u64 << 20) as f64;
    let value = bytes as f64;
    if value > GIB {
        format!("{:.2} GiB", value / GIB)
    } else if value >= MIB / 100.0 {
        format!("{:.2} MiB", value / MIB)
    } else {
        format!("{bytes} bytes")
    }
}

/// What failed.
pub fn kind(kind: Kind) -> &'static str {
    match kind {
        Kind::GpuMemory => "the card's memory ran out",
        Kind::HostMemory => "the machine's own memory ran out, not the card's",
        Kind::SharedMemory => "a kernel asked for more shared memory than a multiprocessor has",
        Kind::None => "the log shows no failure of memory",
        Kind::Unknown => "memory ran out; the log does not say which",
    }
}

/// A phase's name.
pub fn phase_name(name: PhaseName) -> &'static str {
    match name {
        PhaseName::TrainForward => "the forward of a training step",
        PhaseName::TrainBackward => "the backward of a training step",
        PhaseName::Update => "the optimizer's step",
        PhaseName::Evaluate => "an evaluation (`estimate_loss`)",
        PhaseName::Load => "loading the model",
        PhaseName::Resume => "loading a checkpoint",
        PhaseName::Compile => "compiling the model",
        PhaseName::Prepare => "preparing data",
        PhaseName::Unknown => "an unknown phase",
    }
}

/// When it failed.
pub fn phase(phase: Phase) -> String {
    match phase.certainty {
        Certainty::Certain => format!("in {}", phase_name(phase.name)),
        Certainty::Likely => format!("probably in {}", phase_name(phase.name)),
        Certainty::Unknown => "the log does not show in which phase".to_owned(),
    }
}

/// One candidate.
pub fn tensor(tensor: &Tensor) -> String {
    let shape: Vec<_> = tensor.shape.iter().map(u64::to_string).collect();
    let mut text = format!(
        "`{}` ({}) {}, {}",
        tensor.name,
        shape.join(", "),
        tensor.dtype,
        size(tensor.bytes)
    );
    if let Some(run) = tensor.supposing {
        let _ = write!(
            text,
            ", supposing {} with batch_size {} and block_size {}",
            run.model, run.batch_size, run.block_size
        );
    }
    text
}

/// One finding.
pub fn finding(finding: &Finding) -> String {
    let e = Said(&finding.evidence);
    let text = match finding.rule {
        "host-memory" => format!(
            "host memory: the sign is `{}`{}",
            e.text("sign"),
            match e.bytes("requested_bytes") {
                Some(bytes) => format!(", {} were asked for", size(bytes)),
                None => String::new(),
            }
        ),
        "shared-memory" => match (e.bytes("required_bytes"), e.bytes("limit_bytes")) {
            (Some(required), Some(limit)) => format!(
                "a kernel needs {required} bytes of shared memory and a multiprocessor has {limit}; \
                 this is not the card's memory"
            ),
            _ => "a kernel needs more shared memory than a multiprocessor has".to_owned(),
        },
        "invalid-config" => match finding.evidence.get_text("message") {
            Some(message) => format!("the config cannot run: {message}"),
            None => format!("the script refused `{}`", e.text("key")),
        },
        "hidden-by-compiler" => {
            "the allocation failed while the compiler was at work, or inside one \
             of its errors"
                .to_owned()
        }
        "foreign-memory" => {
            let (foreign, free) = (e.size("foreign_bytes"), e.size("free_bytes"));
            let requested = e.size("requested_bytes");
            if finding.is_cause {
                format!(
                    "other processes hold {foreign}; with the {free} free it would have held the {requested}"
                )
            } else {
                format!(
                    "other processes hold {foreign}, but that is not why: {requested} were asked for, {free} were free"
                )
            }
        }
        "free-exceeds-request" => format!(
            "{} were free and only {} were asked for: capacity is not the cause",
            e.size("free_bytes"),
            e.size("requested_bytes")
        ),
        "request-larger-than-card" => format!(
            "one tensor of {} is larger than the whole card ({})",
            e.size("requested_bytes"),
            e.size("total_bytes")
        ),
        "static-state-too-large" => format!(
            "{} parameters need {} for weights, gradients and moments, and {} for half copies; the card has \
             {}: no batch is small enough",
            e.number("parameter_count"),
            e.size("state_bytes"),
            e.size("half_copies_bytes"),
            e.size("total_bytes")
        ),
        "fragmentation" => format!(
            "{} were reserved and unused, {} were asked for: in pieces there was enough",
            e.size("unallocated_bytes"),
            e.size("requested_bytes")
        ),
        "checkpoint-on-device" => format!(
            "the checkpoint was loaded onto the card, where a second copy of the weights stays{}",
            match e.bytes("second_copy_bytes") {
                Some(bytes) => format!(" ({})", size(bytes)),
                None => String::new(),
            }
        ),
        "optimizer-temporaries" => match e.bytes("moments_bytes") {
            Some(bytes) => {
                format!("the optimizer's step needs room of its own: {} of moments", size(bytes))
            }
            None => "the optimizer's step needs room of its own".to_owned(),
        },
        "stale-logits" => format!(
            "the logits of the pass before are still held ({}): {} = {}, and the message says {}",
            e.size("stale_bytes"),
            sum(&finding.evidence),
            e.size("held_bytes"),
            e.size("allocated_bytes")
        ),
        "logits-at-the-peak" | "attention-scores" | "mlp-activation" | "weight-shaped" => {
            let what = match finding.rule {
                "logits-at-the-peak" => "scores over the vocabulary",
                "attention-scores" => "attention scores",
                "mlp-activation" => "an MLP's inner value",
                _ => "a tensor shaped like a weight",
            };
            let mut text = format!(
                "{} were asked for: {what}, `{}` {} {}",
                e.size("requested_bytes"),
                e.text("tensor"),
                e.text("shape"),
                e.text("dtype")
            );
            if let Some(model) = finding.evidence.get_text("supposing_model") {
                let _ = write!(
                    text,
                    ", if this is {model} with batch_size {} and block_size {} (no config was given)",
                    e.number("supposing_batch_size"),
                    e.number("supposing_block_size")
                );
            }
            text
        }
        "evaluation-uses-training-batch" => format!(
            "the evaluation runs with training's batch of {}: {}; with one sequence at a time {}",
            e.number("batch_size"),
            e.size("peak_bytes"),
            e.size("peak_with_one_sequence_bytes")
        ),
        "no-shape-in-request" => format!(
            "{} is what the allocator asks for whatever a small tensor needs: the number names no tensor",
            e.size("requested_bytes")
        ),
        "no-match" => {
            let mut text = format!("no tensor of this run is {}", e.size("requested_bytes"));
            if let Some(name) = finding.evidence.get_text("would_match") {
                let _ = write!(
                    text,
                    "; {name} {} {} would be, in {} with batch_size {} and block_size {}",
                    e.text("would_match_shape"),
                    e.text("would_match_dtype"),
                    e.text("would_match_model"),
                    e.number("would_match_batch_size"),
                    e.number("would_match_block_size")
                );
            }
            text
        }
        other => other.to_owned(),
    };
    match finding.certainty {
        Certainty::Certain => text,
        Certainty::Likely => format!("probably: {text}"),
        Certainty::Unknown => format!("possibly: {text}"),
    }
}

/// A harmless line of the log.
pub fn note(name: &str) -> &'static str {
    match name {
        "few-multiprocessors" => "`Not enough SMs` only turns one tuner off",
        "grad-scaler-deprecated" => "the `GradScaler` warning is about a name",
        "autocast-deprecated" => "the `autocast` warning is about a name",
        "load-weights-only" => "the `weights_only` warning is about safety, not memory",
        "fragmentation-hint" => "the advice about fragmentation stands in every such message",
        "matmul-precision" => "the TensorFloat32 warning is about speed",
        "omp-threads" => "`OMP_NUM_THREADS` is about the host's threads",
        "process-group-not-destroyed" => "the process group's warning follows from the failure",
        "slow-attention" => "this PyTorch has no fused attention: scores are written out",
        "asynchronous-report" => "the traceback may point behind the op that failed",
        "lr-scheduler-order" => "the scheduler's warning is about the learning rate",
        "kernel-choice-skipped" => {
            "Triton's `out of resource` lines are choices that a tuner skipped"
        }
        _ => "harmless",
    }
}

/// What fails next.
pub fn next(next: Next) -> String {
    format!(
        "once that is mended, {} does not fit either: {} of tensors, {} for them",
        phase_name(next.phase),
        size(next.peak_bytes),
        size(next.usable_bytes)
    )
}

/// A whole diagnosis but its fixes.
pub fn diagnosis(diagnosis: &Diagnosis) -> String {
    let mut text = format!("{}\n", kind(diagnosis.kind));
    if diagnosis.kind == Kind::GpuMemory {
        let _ = writeln!(text, "{}", phase(diagnosis.phase));
    }
    for found in &diagnosis.findings {
        let mark = if found.is_cause { "cause" } else { "seen" };
        let _ = writeln!(text, "{mark}  {}: {}", found.rule, finding(found));
    }
    if let Some(after) = diagnosis.next {
        let _ = writeln!(text, "{}", next(after));
    }
    for name in &diagnosis.notes {
        let _ = writeln!(text, "note  {}", note(name));
    }
    text
}

/// `0.46 GiB weights + 6.14 GiB logits of the last batch`.
fn sum(evidence: &Evidence) -> String {
    let Some(Datum::Parts(parts)) = evidence.get("parts") else { return String::new() };
    let part = |part: &Part| format!("{} {}", size(part.bytes), part.name);
    parts.iter().map(part).collect::<Vec<_>>().join(" + ")
}

/// Evidence as a sentence takes it.
struct Said<'a>(&'a Evidence);

impl Said<'_> {
    fn bytes(&self, name: &str) -> Option<u64> {
        self.0.get_number(name)
    }

    fn size(&self, name: &str) -> String {
        self.bytes(name).map_or_else(|| "an unknown size".to_owned(), size)
    }

    fn number(&self, name: &str) -> String {
        self.bytes(name).map_or_else(|| "an unknown number".to_owned(), |n| n.to_string())
    }

    fn text(&self, name: &str) -> &str {
        self.0.get_text(name).unwrap_or("unknown")
    }
}
