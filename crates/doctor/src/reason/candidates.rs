//! Every tensor of the run that matches the requested size.

use fitgpt_fit::torch::{self, LossForm, TorchOptions, TorchPrecision};
use fitgpt_program::{Access, Program, Tensor, TensorClass, TensorRole};

use super::{
    account::{HeldMemory, LiveTensors},
    run::TrainingRun,
};
use crate::{
    facts::{CandidateTensor, FailurePhase, PhaseName, Role, ShareName, TensorName},
    parse::{Log, PrintedShape, PrintedSize, allocator_request},
};

/// A tensor that the request may have been for, at the op that agrees best with the message.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    pub(crate) tensor: CandidateTensor,
    /// What the run holds at that op, if known.
    pub(crate) held: Option<HeldMemory>,
    /// Relative difference from the allocated memory in the message; infinite if unknown.
    pub(crate) distance: f64,
    pub(crate) agrees: bool,
    /// Whether another op agrees without stale logits.
    pub(crate) agrees_without_stale: bool,
    /// Whether the config as given allocates this tensor, rather than a variation of it.
    pub(crate) is_of_config: bool,
    /// Whether the failing line of code names it.
    pub(crate) is_named: bool,
    /// Whether the log prints its shape.
    pub(crate) is_printed: bool,
    /// Only the form of the printed shape says what it is, or it is a part of the request.
    pub(crate) is_form: bool,
}

impl Candidate {
    /// A shape that the log prints and that no program explains.
    pub(super) fn unexplained(name: TensorName, role: Role, shape: &PrintedShape) -> Self {
        Self {
            tensor: CandidateTensor {
                name,
                shape: shape.axes.clone(),
                dtype: shape.dtype.name,
                bytes: shape.bytes().unwrap_or(0),
                role,
                phase: PhaseName::Unknown,
                supposing: None,
            },
            held: None,
            distance: f64::INFINITY,
            agrees: false,
            agrees_without_stale: false,
            is_of_config: false,
            is_named: false,
            is_printed: true,
            is_form: false,
        }
    }
}

/// One possible state of the run.
#[derive(Clone, Copy, Debug)]
struct Variant {
    options: TorchOptions,
    /// Before the first step, when Adam has no moments yet.
    is_before_adam: bool,
    is_of_config: bool,
}

/// All candidates, unordered.
pub(super) fn candidates(
    log: &Log,
    run: &TrainingRun,
    requested: PrintedSize,
    allocated: Option<PrintedSize>,
) -> Vec<Candidate> {
    let is_rounded = log.message.as_ref().is_some_and(crate::parse::Message::is_rounded);
    let printed = log.shape.as_ref();
    let code = log.frames.last().map(crate::parse::Frame::squeezed).unwrap_or_default();
    let search = Search { run, requested, allocated, is_rounded, printed, code };
    let mut list = Vec::new();
    for variant in variants(run) {
        search.look(variant, &mut list);
    }
    if list.is_empty() {
        for variant in neighbours(run) {
            search.look(variant, &mut list);
        }
    }
    if let Some(shape) = &log.shape
        && !list.iter().any(|c| c.is_printed)
    {
        list.push(search.unnamed(shape));
    }
    list
}

/// Sorts by: printed shape, matching phase, named by the failing line, account.
pub(super) fn rank(list: &mut Vec<Candidate>, phase: FailurePhase) {
    let is_elsewhere =
        |c: &Candidate| phase.name != PhaseName::Unknown && c.tensor.phase != phase.name;
    list.sort_by(|a, b| {
        let key = |c: &Candidate| {
            (!c.is_printed, is_elsewhere(c), !c.is_named, !c.agrees, !c.is_of_config)
        };
        key(a)
            .cmp(&key(b))
            .then(a.distance.total_cmp(&b.distance))
            .then(group_of(a).cmp(&group_of(b)))
    });
    // One tensor in several phases is one candidate.
    let mut seen: Vec<(TensorName, Vec<u64>, &str)> = Vec::new();
    list.retain(|candidate| {
        let CandidateTensor { name, shape, dtype, .. } = &candidate.tensor;
        let key = (name.clone(), shape.clone(), *dtype);
        let is_new = !seen.contains(&key);
        if is_new {
            seen.push(key);
        }
        is_new
    });
}

/// Without other evidence, roles with larger tensors come first.
fn group_of(candidate: &Candidate) -> u8 {
    match candidate.tensor.role {
        Role::Logits => 0,
        Role::AttentionScores => 1,
        Role::Mlp => 2,
        Role::Other => 3,
        Role::Weight => 4,
    }
}

/// The programs of the config: each form of the loss and of attention that this PyTorch version
/// may use, in the first pass (without stale logits) and in later passes.
fn variants(run: &TrainingRun) -> Vec<Variant> {
    let base = run.options;
    let mut fused = vec![base.fused_attention];
    if run.may_be_unfused && !base.compile && base.fused_attention {
        fused.push(false);
    }
    let losses: &[LossForm] = if base.compile {
        &[LossForm::Float32]
    } else {
        &[LossForm::Float32, LossForm::HalfSoftmax]
    };
    let mut list = Vec::new();
    for fused_attention in fused {
        for &loss in losses {
            let later = TorchOptions { fused_attention, loss, ..base };
            let one = TorchOptions { accumulation: 1, ..later };
            let first = TorchOptions { drop_stale_logits: true, ..one };
            let is_of_config = true;
            list.push(Variant { options: later, is_before_adam: false, is_of_config });
            list.push(Variant { options: later, is_before_adam: true, is_of_config });
            list.push(Variant { options: one, is_before_adam: false, is_of_config });
            list.push(Variant { options: first, is_before_adam: true, is_of_config });
        }
    }
    list
}

/// Runs that differ in one setting, in case the config is not exactly that of the log.
fn neighbours(run: &TrainingRun) -> Vec<Variant> {
    let base = run.options;
    let mut list = vec![TorchOptions { compile: !base.compile, ..base }];
    list.push(TorchOptions { fused_attention: false, compile: false, ..base });
    if !run.is_dtype_written {
        list.push(TorchOptions { precision: TorchPrecision::F32, compile: false, ..base });
    }
    let of = |options| Variant { options, is_before_adam: false, is_of_config: false };
    list.into_iter().map(of).collect()
}

struct Search<'a> {
    run: &'a TrainingRun,
    requested: PrintedSize,
    allocated: Option<PrintedSize>,
    is_rounded: bool,
    printed: Option<&'a PrintedShape>,
    code: String, // of the innermost frame
}

impl Search<'_> {
    /// Whether a request for a tensor of this size would print the same number.
    fn prints_alike(&self, bytes: u64) -> bool {
        if self.is_rounded {
            return self.requested.admits(allocator_request(bytes));
        }
        self.requested.admits(bytes) || self.requested.admits(bytes.next_multiple_of(512))
    }

    fn look(&self, variant: Variant, list: &mut Vec<Candidate>) {
        for (phase, program) in torch::phases(&self.run.model, &variant.options) {
            if phase == torch::TorchPhase::Sample {
                continue;
            }
            if phase == torch::TorchPhase::EvaluateFirst
                && !variant.is_before_adam
                && variant.options.accumulation == 1
            {
                continue; // the same as the previous variant
            }
            self.look_in(phase, &program, variant, list);
        }
    }

    fn look_in(
        &self,
        phase: torch::TorchPhase,
        program: &Program,
        variant: Variant,
        list: &mut Vec<Candidate>,
    ) {
        let mut account = None;
        let mut is_backward = false;
        for (at, op) in (0..).zip(program.ops()) {
            let operands = op.operands();
            is_backward |= operands.iter().any(|operand| {
                let role = program.get(operand.tensor).role;
                operand.access == Access::Writes && role == TensorRole::LossGradient
            });
            for operand in operands {
                let tensor = program.get(operand.tensor);
                if operand.access != Access::Writes
                    || is_older(tensor)
                    || !self.prints_alike(tensor.bytes().get())
                {
                    continue;
                }
                let name = match phase {
                    torch::TorchPhase::Resume => PhaseName::Resume,
                    torch::TorchPhase::Train if is_backward => PhaseName::TrainBackward,
                    torch::TorchPhase::Train => PhaseName::TrainForward,
                    torch::TorchPhase::Update => PhaseName::Update,
                    _ => PhaseName::Evaluate,
                };
                let account = account.get_or_insert_with(|| LiveTensors::new(program));
                let mut held = account.before(at);
                if variant.is_before_adam && phase == torch::TorchPhase::Train {
                    without_moments(&mut held);
                }
                self.add(tensor, name, Some(held), variant, list);
            }
        }
        if phase == torch::TorchPhase::Update {
            for tensor in program.state() {
                if self.prints_alike(tensor.bytes().get()) {
                    let is_loaded = variant.options.resumed;
                    let name = match tensor.class {
                        TensorClass::Optimizer if is_loaded => PhaseName::Resume,
                        TensorClass::Optimizer => PhaseName::Update,
                        TensorClass::Gradient => PhaseName::TrainBackward,
                        _ if tensor.role == TensorRole::LoadedWeight => PhaseName::Resume,
                        _ => PhaseName::Load,
                    };
                    self.add(tensor, name, None, variant, list);
                }
            }
        }
    }

    fn add(
        &self,
        tensor: &Tensor,
        phase: PhaseName,
        held: Option<HeldMemory>,
        variant: Variant,
        list: &mut Vec<Candidate>,
    ) {
        let distance = match (&held, self.allocated) {
            (Some(held), Some(allocated)) => held.distance(allocated),
            _ => f64::INFINITY,
        };
        let agrees = match (&held, self.allocated) {
            (Some(held), Some(allocated)) => held.agrees(allocated),
            _ => false,
        };
        let agrees_without_stale =
            agrees && held.as_ref().is_some_and(|held| held.stale_logits_bytes == 0);
        let is_printed = self.printed.is_some_and(|shape| {
            let count: u64 = shape.axes.iter().product();
            shape.dtype.name == tensor.dtype.name() && count == tensor.count()
        });
        let candidate = Candidate {
            tensor: CandidateTensor {
                name: name_of(tensor),
                shape: tensor.shape.clone(),
                dtype: tensor.dtype.name(),
                bytes: tensor.bytes().get(),
                role: self.role(tensor),
                phase,
                supposing: None,
            },
            held,
            distance,
            agrees,
            agrees_without_stale,
            is_of_config: variant.is_of_config,
            is_named: self.names(tensor.role),
            is_printed,
            is_form: false,
        };
        let same = list
            .iter_mut()
            .find(|c| c.tensor == candidate.tensor && c.is_of_config == candidate.is_of_config);
        match same {
            Some(same) => {
                let is_fresh = same.agrees_without_stale || candidate.agrees_without_stale;
                if candidate.distance < same.distance {
                    *same = candidate;
                }
                same.agrees_without_stale = is_fresh;
            }
            None => list.push(candidate),
        }
    }

    /// Whether the failing line of code names the tensor.
    fn names(&self, role: TensorRole) -> bool {
        use TensorRole as R;
        let words: [(&str, &[R]); 4] = [
            ("exp_avg_sq", &[R::SecondMoment]),
            ("exp_avg", &[R::FirstMoment]),
            ("sqrt", &[R::SecondMomentRoot]),
            ("softmax", &[R::AttentionSoftmax, R::LogSoftmax]),
        ];
        let found = words.iter().find(|(word, _)| self.code.contains(word));
        found.is_some_and(|(_, roles)| roles.contains(&role))
    }

    /// A shape that the log prints but that no program contains.
    fn unnamed(&self, shape: &PrintedShape) -> Candidate {
        let is_logits = shape.axes.last() == Some(&self.run.model.vocab.into());
        let role = if is_logits { Role::Logits } else { Role::Other };
        Candidate::unexplained(TensorName::OfGeneratedCode, role, shape)
    }

    fn role(&self, tensor: &Tensor) -> Role {
        let channels = u64::from(self.run.model.channels);
        match (tensor.class, tensor.role) {
            (TensorClass::Logits, _) => Role::Logits,
            (TensorClass::Parameter | TensorClass::Gradient | TensorClass::Optimizer, _)
            | (_, TensorRole::ParameterCopy) => Role::Weight,
            (_, TensorRole::AttentionScores | TensorRole::AttentionSoftmax) => {
                Role::AttentionScores
            }
            _ if tensor.columns() == 4 * channels => Role::Mlp,
            _ => Role::Other,
        }
    }
}

/// Programs model tensors of earlier passes as if they wrote them.
fn is_older(tensor: &Tensor) -> bool {
    ShareName::of_tensor(tensor).is_stale_logits() || tensor.role == TensorRole::TrainingVariable
}

fn name_of(tensor: &Tensor) -> TensorName {
    match tensor.role {
        TensorRole::Logits => TensorName::Logits,
        _ => TensorName::OfProgram(of_any_layer(&tensor.name)),
    }
}

/// Removes the moments, which do not exist before the first step.
fn without_moments(held: &mut HeldMemory) {
    let is_moments = |part: &crate::facts::AccountShare| part.name == ShareName::OptimizerState;
    let bytes: u64 = held.parts.iter().filter(|p| is_moments(p)).map(|p| p.bytes).sum();
    held.bytes -= bytes;
    held.parts.retain(|part| !is_moments(part));
}

/// `d_h.3.mlp.fc` → `d_h.*.mlp.fc`: all layers have the same shapes.
fn of_any_layer(name: &str) -> String {
    let Some(at) = name.find("h.").filter(|at| {
        let before = name[..*at].chars().next_back();
        before.is_none_or(|c| !c.is_ascii_alphanumeric())
    }) else {
        return name.to_owned();
    };
    let rest = &name[at + 2..];
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    if digits == 0 {
        return name.to_owned();
    }
    format!("{}h.*{}", &name[..at], &rest[digits..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_layers_share_one_name() {
        assert_eq!(of_any_layer("h.11.mlp.fc"), "h.*.mlp.fc");
        assert_eq!(of_any_layer("half d_h.3.attn.c_attn.weight"), "half d_h.*.attn.c_attn.weight");
        assert_eq!(of_any_layer("wte.weight"), "wte.weight");
        assert_eq!(of_any_layer("each.1"), "each.1");
    }
}
