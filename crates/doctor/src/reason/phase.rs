//! The phase of the failure: from the traceback, else the script's last line, else the account.

use super::{candidates::Candidate, run::TrainingRun};
use crate::{
    facts::{Certainty, Domain, FailurePhase, MemoryKind, PhaseName},
    parse::{Clue, Frame, Log, Wording},
};

/// What the script's last line indicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PhaseHint {
    Evaluate,
    Train,
    Load,
    Resume,
}

/// The phase that the traceback shows.
pub(super) fn by_frames(log: &Log) -> Option<FailurePhase> {
    let trace = Trace::new(log);
    if trace.texts.is_empty() {
        return None;
    }
    let certain = |name| Some(FailurePhase { name, certainty: Certainty::Certain });
    let likely = |name| Some(FailurePhase { name, certainty: Certainty::Likely });
    let forward = trace.last(|frame, text| is_forward(frame) || has(text, &STEPS));
    if trace.compiles() {
        certain(PhaseName::Compile)
    } else if trace.has(&["estimate_loss"]) {
        certain(PhaseName::Evaluate)
    } else if trace.saves() {
        certain(PhaseName::Save)
    } else if trace.starts() {
        certain(PhaseName::Start)
    } else if trace.evaluates()
        && !trace.has(&[".backward(", "run_backward"])
        && (trace.calls(&LOOPS) || !trace.generates())
    {
        likely(PhaseName::Evaluate)
    } else if trace.has(&[".backward(", "run_backward"]) {
        certain(PhaseName::TrainBackward)
    } else if trace.has(&LOADS) || trace.is_loading() {
        // Checked before `torch.load`, which `from_pretrained` calls too.
        certain(PhaseName::Load)
    } else if trace.update() > forward {
        // Loading a checkpoint also names the moments.
        let loads = trace.has(&["load_state_dict(", "torch.load("]);
        certain(if loads { PhaseName::Resume } else { PhaseName::Update })
    } else if trace.is_in(&["torch/serialization.py"])
        || trace.has(&["torch.load(", "paddle.load(", "load_state_dict(", "load_checkpoint("])
    {
        certain(PhaseName::Resume)
    } else if trace.has(&["model.to(", "model.cuda("]) || trace.moves_a_module() {
        certain(PhaseName::Load)
    } else if trace.is_in(&["prepare.py"]) {
        certain(PhaseName::Prepare)
    } else if trace.frames.iter().any(is_training_loop) {
        certain(PhaseName::TrainForward)
    } else if trace.generates() {
        likely(PhaseName::Sample)
    } else if forward.is_some() && trace.trains() {
        likely(PhaseName::TrainForward)
    } else {
        None
    }
}

/// A layer's forward pass whose callers were cut off: training, if the program trains.
pub(super) fn by_innermost(log: &Log, domain: Domain) -> Option<FailurePhase> {
    let trains = matches!(domain, Domain::DecoderTraining | Domain::OtherTraining);
    let last = log.frames.last()?;
    let is_layer = last.file.replace('\\', "/").contains("torch/nn/") || is_forward(last);
    (trains && is_layer)
        .then_some(FailurePhase { name: PhaseName::TrainForward, certainty: Certainty::Likely })
}

/// Calls that put a model on the card in other scripts than nanoGPT.
const LOADS: [&str; 10] = [
    "get_peft_model(",
    "from_pretrained(",
    "_move_model_to_device",
    "patch_weight_to_device",
    "load_models_gpu",
    "dispatch_model",
    "load_model(",
    "set_module_tensor_to_device",
    "load_checkpoint_and_dispatch(",
    "load_checkpoint_guess_config(",
];

/// Evaluation loops, which may generate.
const LOOPS: [&str; 4] = ["evaluation_loop", "prediction_loop", "prediction_step", "evaluate"];

/// Set-up calls of engines and communicators.
const STARTS: [&str; 17] = [
    "accelerator.prepare(",
    "prepare_model(",
    "deepspeed.initialize(",
    "_configure_optimizer(",
    "_configure_zero_optimizer(",
    "initialize_optimizer_states",
    "FullyShardedDataParallel(",
    "DistributedDataParallel(",
    "DDP(model",
    "init_process_group(",
    "profile_run(",
    "determine_num_available_blocks",
    "_initialize_kv_caches",
    "initialize_cache(",
    "capture_model(",
    "_cuda_init(",
    "cuCtxCreate",
];

/// Functions in which trainers run the forward pass of a step.
const STEPS: [&str; 4] = ["training_step", "train_step", "compute_loss", "fit_batch"];

/// A model's `forward`, or PyTorch's call of it.
fn is_forward(frame: &Frame) -> bool {
    frame.function == "forward" || frame.function.ends_with("_call_impl")
}

fn is_forward_call(frame: &Frame, _: &str) -> bool {
    is_forward(frame)
}

/// A traceback, outermost frame first.
struct Trace<'a> {
    frames: &'a [Frame],
    texts: Vec<String>, // function and code of each frame, without white space
}

fn has(text: &str, words: &[&str]) -> bool {
    words.iter().any(|word| text.contains(word))
}

impl<'a> Trace<'a> {
    fn new(log: &'a Log) -> Self {
        Self { frames: &log.frames, texts: log.frames.iter().map(Frame::squeezed).collect() }
    }

    fn has(&self, words: &[&str]) -> bool {
        self.texts.iter().any(|text| has(text, words))
    }

    fn is_in(&self, paths: &[&str]) -> bool {
        self.frames.iter().any(|frame| paths.iter().any(|path| frame.is_in(path)))
    }

    fn calls(&self, functions: &[&str]) -> bool {
        self.frames.iter().any(|frame| functions.contains(&frame.function.as_str()))
    }

    fn last(&self, is: impl Fn(&Frame, &str) -> bool) -> Option<usize> {
        self.frames.iter().zip(&self.texts).rposition(|(frame, text)| is(frame, text))
    }

    /// Generated code runs in every phase; only the compiler itself is the compile phase.
    fn compiles(&self) -> bool {
        let runs_generated_code = self.frames.last().is_some_and(|frame| {
            frame.file.contains("torchinductor") || frame.code.contains("empty_strided")
        });
        let is_compiling =
            self.is_in(&["select_algorithm.py", "_dynamo/convert_frame.py", "triton/compiler.py"])
                || self.has(&[
                    "fx_codegen_and_compile",
                    "codegen_and_compile",
                    "call_user_compiler",
                    "benchmark_in_",
                ]);
        is_compiling && !runs_generated_code
    }

    /// The innermost optimizer frame. Some trainers run a whole step inside an optimizer's closure,
    /// so the caller compares its depth with that of the forward pass.
    fn update(&self) -> Option<usize> {
        let files = ["optim/adamw.py", "optim/adam.py", "optim/optimizer.py", "clip_grad.py"];
        let calls = [
            "optimizer.step(",
            "optim.step(",
            "scaler.step(",
            "_foreach_",
            "clip_grad_norm_",
            "exp_avg",
        ];
        self.last(|frame, text| files.iter().any(|file| frame.is_in(file)) || has(text, &calls))
    }

    fn evaluates(&self) -> bool {
        let is_evaluation = |frame: &Frame| {
            let name = frame.function.to_ascii_lowercase();
            name.starts_with("eval")
                || name.starts_with("val_")
                || ["evaluat", "validat", "prediction_"].iter().any(|word| name.contains(word))
                || name == "test"
        };
        self.frames.iter().any(is_evaluation) || self.has(&["trainer.evaluate(", "self.evaluate("])
    }

    /// A function or call that writes a checkpoint, deeper than any forward pass.
    fn saves(&self) -> bool {
        let is_save = |frame: &Frame, text: &str| {
            let name = frame.function.to_ascii_lowercase();
            (name.starts_with("save") || name.contains("_save_") || name.ends_with("_save"))
                && !["load", "and_save", "evaluat", "_maybe_"]
                    .iter()
                    .any(|word| name.contains(word))
                || has(
                    text,
                    &["torch.save(", "save_pretrained(", "save_checkpoint(", "save_model("],
                )
        };
        // FSDP gathers whole parameters for a state dict.
        if self.is_in(&["fsdp/_state_dict_utils.py", "fsdp/_unshard_param_utils.py"]) {
            return true;
        }
        let is_deeper = |at: usize| self.last(is_forward_call).is_none_or(|forward| at > forward);
        self.last(is_save).is_some_and(is_deeper)
    }

    fn starts(&self) -> bool {
        self.has(&STARTS)
    }

    fn is_loading(&self) -> bool {
        let names = [
            "load_model",
            "from_pretrained",
            "load_pretrained",
            "_load_state_dict_into",
            "load_checkpoint_guess_config",
            "load_diffusion_model",
            "load_unet",
            "load_torch_file",
        ];
        let is_named = |frame: &Frame| names.iter().any(|name| frame.function.contains(name));
        // A layer constructed inside the constructor of a model.
        let makes = self.frames.iter().filter(|frame| frame.function == "__init__").count() >= 2;
        let is_weight = self.texts.last().is_some_and(|text| {
            has(text, &["Parameter(", "torch.empty(", "nn.Linear(", "nn.Embedding("])
        });
        self.frames.iter().any(is_named) || (makes && is_weight)
    }

    /// PyTorch's frames of `model.to(device)`, for any variable name.
    fn moves_a_module(&self) -> bool {
        self.frames.iter().any(|frame| {
            frame.is_in("nn/modules/module.py")
                && matches!(frame.function.as_str(), "to" | "cuda" | "_apply" | "convert")
        })
    }

    /// Whether a training script or function is on the stack.
    fn trains(&self) -> bool {
        self.frames.iter().zip(&self.texts).any(|(frame, text)| {
            let file = frame.file.rsplit(['/', '\\']).next().unwrap_or_default();
            let is_trainers = |name: &str| name.contains("train") || name.contains("finetun");
            is_trainers(&file.to_ascii_lowercase())
                || is_trainers(&frame.function.to_ascii_lowercase())
                || text.contains(".train()")
        })
    }

    fn generates(&self) -> bool {
        self.calls(&["generate", "sample", "predict", "inference", "txt2img", "img2img"])
            || self.has(&[".generate(", "process_images("])
    }
}

/// The forward pass directly in nanoGPT's training loop.
fn is_training_loop(frame: &Frame) -> bool {
    let code: String = frame.code.chars().filter(|c| !c.is_whitespace()).collect();
    matches!(frame.function.as_str(), "<module>" | "main" | "train" | "")
        && (code.contains("loss=model(") || code.contains("loss=raw_model("))
}

/// The phase that follows the script's last line.
pub(super) fn by_lines(log: &Log, run: Option<&TrainingRun>) -> Option<PhaseHint> {
    let progress = &log.progress;
    let offset = |at: Option<u64>| at.unwrap_or(0);
    let step = progress.step.map(|(_, at)| at);
    let iter = progress.iter.map(|(_, at)| at);
    let start = [progress.compiling, progress.made];
    let start = start.into_iter().flatten().max();
    let begun =
        [progress.resuming, progress.scratch, progress.pretrained.as_ref().map(|(_, at)| *at)];
    let begun = begun.into_iter().flatten().max();
    if let Some((number, at)) = progress.iter
        && at > offset(step)
    {
        // The next iteration begins with an evaluation if its number is a multiple of the interval.
        let interval = run.map_or(2000, |run| run.config.eval_interval());
        let evaluates = number.checked_add(1).is_some_and(|next| next % interval.max(1) == 0);
        return Some(if evaluates { PhaseHint::Evaluate } else { PhaseHint::Train });
    }
    if step.is_some() && step > iter {
        return Some(PhaseHint::Train);
    }
    if start.is_some() && start >= begun {
        return Some(PhaseHint::Evaluate);
    }
    if progress.resuming.is_some() && progress.resuming == begun {
        return Some(PhaseHint::Resume);
    }
    begun.map(|_| PhaseHint::Load)
}

/// The phase from the user's description, or the usual phase of a server.
pub(super) fn by_words(log: &Log, domain: Domain) -> Option<FailurePhase> {
    let likely = |name| Some(FailurePhase { name, certainty: Certainty::Likely });
    let clues = log.clues;
    let message = log.message.as_ref()?;
    match message.wording {
        Wording::Server if clues.has(Clue::Serves) => return likely(PhaseName::Serve),
        Wording::Server => return likely(PhaseName::Start),
        Wording::Ggml => return likely(PhaseName::Load),
        // TensorRT's builder tries kernels.
        _ if clues.has(Clue::BuildsEngine) => return likely(PhaseName::Compile),
        Wording::PagingFile if log.frames.is_empty() => return Some(FailurePhase::UNKNOWN),
        _ => {}
    }
    if let Some(name) =
        log.line_before.as_deref().filter(|_| log.frames.is_empty()).and_then(by_line)
    {
        return likely(name);
    }
    if clues.has(Clue::Saving) {
        return likely(PhaseName::Save);
    }
    if log.setup.is_loading_shards && message.memory != MemoryKind::HostMemory {
        return likely(PhaseName::Load);
    }
    let is_training = |name: PhaseName| {
        matches!(
            name,
            PhaseName::Resume
                | PhaseName::Update
                | PhaseName::TrainForward
                | PhaseName::TrainBackward
                | PhaseName::Save
        )
    };
    let said = log.setup.situation.activity.filter(|name| {
        *name != PhaseName::Unknown && !(domain == Domain::Serving && is_training(*name))
    });
    if let Some(name) = said {
        return likely(name);
    }
    if clues.has(Clue::WakesUp) {
        return likely(PhaseName::Serve);
    }
    if clues.has(Clue::InitializesOptimizer) && log.frames.is_empty() {
        return likely(PhaseName::Start);
    }
    if domain == Domain::Serving {
        if clues.has(Clue::CapturesGraphs) {
            return likely(PhaseName::Start);
        }
        if clues.has(Clue::Loading) {
            return likely(PhaseName::Load);
        }
        // A traceback of these programs without a sign of loading is that of an image.
        let draws = clues.any(&[Clue::ComfyUi, Clue::SdWebui, Clue::Diffusion]);
        let is_traced = !log.frames.is_empty();
        let serves = clues.has(Clue::Serves)
            || draws && is_traced && message.memory == MemoryKind::GpuMemory;
        return if serves { likely(PhaseName::Serve) } else { None };
    }
    if clues.has(Clue::Loading) && domain == Domain::Inference {
        return likely(PhaseName::Load);
    }
    if clues.has(Clue::Validating) && log.frames.is_empty() {
        return likely(PhaseName::Evaluate);
    }
    None
}

/// The phase of the line of code above the message, of which the frame was cut off.
fn by_line(line: &str) -> Option<PhaseName> {
    let code: String = line.chars().filter(|c| !c.is_whitespace()).collect();
    match () {
        () if has(&code, &["exp_avg", "optimizer.step("]) => Some(PhaseName::Update),
        () if code.contains(".backward(") => Some(PhaseName::TrainBackward),
        // A layer is being made.
        () if has(&code, &["=Parameter(", "=nn.Parameter(", "=torch.nn.Parameter("]) => {
            Some(PhaseName::Load)
        }
        () => None,
    }
}

/// The phase according to the most reliable evidence.
pub(super) fn decide(
    by_frames: Option<FailurePhase>,
    by_lines: Option<PhaseHint>,
    by_words: Option<FailurePhase>,
    candidates: &[Candidate],
) -> FailurePhase {
    let likely = |name| FailurePhase { name, certainty: Certainty::Likely };
    if let Some(phase) = by_frames.or(by_words) {
        return phase;
    }
    match by_lines {
        Some(PhaseHint::Evaluate) => return likely(PhaseName::Evaluate),
        Some(PhaseHint::Load) => return likely(PhaseName::Load),
        Some(PhaseHint::Resume) => return likely(PhaseName::Resume),
        Some(PhaseHint::Train) | None => {}
    }
    let is_step = |name| {
        matches!(name, PhaseName::TrainForward | PhaseName::TrainBackward | PhaseName::Update)
    };
    let is_open = |c: &&Candidate| by_lines.is_none() || is_step(c.tensor.phase);
    let mut agreeing: Vec<&Candidate> =
        candidates.iter().filter(is_open).filter(|c| c.agrees && c.is_of_config).collect();
    agreeing.sort_by(|a, b| a.distance.total_cmp(&b.distance));
    match agreeing.as_slice() {
        [] if by_lines.is_some() => likely(PhaseName::TrainForward),
        [] => FailurePhase::UNKNOWN,
        [best, rest @ ..] => {
            // Accounts this close cannot be distinguished.
            const SAME: f64 = 0.002;
            let is_rival = |c: &&&Candidate| {
                c.tensor.phase != best.tensor.phase && c.distance < best.distance + SAME
            };
            let rival = rest.iter().find(is_rival);
            if rival.is_some() && by_lines.is_none() {
                return FailurePhase::UNKNOWN;
            }
            likely(best.tensor.phase)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Frames of one traceback: file, function and code of each.
    fn phase(frames: &[(&str, &str, &str)]) -> Option<(PhaseName, Certainty)> {
        let mut log = "Traceback (most recent call last):\n".to_owned();
        for (file, function, code) in frames {
            log.extend(["  File \"", file, "\", line 7, in ", function, "\n    ", code, "\n"]);
        }
        log += "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 64.00 MiB.\n";
        by_frames(&Log::read(log.as_bytes())).map(|phase| (phase.name, phase.certainty))
    }

    const CALL: (&str, &str, &str) =
        ("/lib/torch/nn/modules/module.py", "_call_impl", "return forward_call(*args)");
    const FORWARD: (&str, &str, &str) = ("/w/net.py", "forward", "x = self.proj(x)");

    #[test]
    fn a_forward_pass_is_training_only_if_the_script_trains() {
        let trainer = ("/lib/transformers/trainer.py", "training_step", "loss = self.run(model)");
        let likely = Some((PhaseName::TrainForward, Certainty::Likely));
        assert_eq!(phase(&[trainer, CALL, FORWARD]), likely);
        let script = ("finetune.py", "main", "out = net(ids)");
        assert_eq!(phase(&[script, CALL, FORWARD]), likely);
        assert_eq!(phase(&[script, CALL]), likely);
        assert_eq!(phase(&[("serve.py", "answer", "out = net(ids)"), CALL, FORWARD]), None);
        assert_eq!(phase(&[("train.py", "<module>", "data = torch.zeros(n)")]), None);
    }

    #[test]
    fn generating_is_not_training() {
        let frames = [("sample.py", "<module>", "y = model.generate(x, 500)"), CALL, FORWARD];
        assert_eq!(phase(&frames), Some((PhaseName::Sample, Certainty::Likely)));
    }

    #[test]
    fn saving_and_starting_are_phases() {
        let save = ("train.py", "save_checkpoint", "state = model.state_dict()");
        assert_eq!(phase(&[save]).unwrap().0, PhaseName::Save);
        let start = ("train.py", "main", "model, *_ = deepspeed.initialize(model=model)");
        assert_eq!(phase(&[start]).unwrap().0, PhaseName::Start);
        // A function named after saving that runs an ordinary forward pass.
        let frames = [("train.py", "save_best", "score = net(x)"), CALL, FORWARD];
        assert_ne!(phase(&frames).map(|phase| phase.0), Some(PhaseName::Save));
    }

    #[test]
    fn a_user_defined_evaluation_function_is_an_evaluation() {
        let frames = [("train.py", "main", "check(net)"), ("train.py", "evaluate_all", "net(x)")];
        assert_eq!(phase(&frames), Some((PhaseName::Evaluate, Certainty::Likely)));
        let frames = [("train.py", "validation_step", "y = self(x)"), CALL, FORWARD];
        assert_eq!(phase(&frames), Some((PhaseName::Evaluate, Certainty::Likely)));
    }

    #[test]
    fn a_forward_pass_inside_an_optimizer_closure_is_training() {
        let step = ("/lib/torch/optim/adam.py", "step", "loss = closure()");
        let inner = ("model.py", "training_step", "loss = self.net(x)");
        assert_eq!(phase(&[step, inner, FORWARD]).unwrap().0, PhaseName::TrainForward);
        assert_eq!(phase(&[inner, step]).unwrap().0, PhaseName::Update);
    }

    #[test]
    fn moving_a_module_to_the_card_is_loading_for_any_variable_name() {
        let to = ("/lib/torch/nn/modules/module.py", "to", "return self._apply(convert)");
        assert_eq!(
            phase(&[("run.py", "setup", "encoder.to(dev)"), to]).unwrap().0,
            PhaseName::Load
        );
        let load = ("ui.py", "load_model", "warm_up()");
        assert_eq!(phase(&[load, FORWARD]).unwrap().0, PhaseName::Load);
        // `from_pretrained` calls `torch.load`.
        let published = ("/lib/hub.py", "from_pretrained", "state = torch.load(path)");
        assert_eq!(phase(&[published]).unwrap().0, PhaseName::Load);
        let into = ("/lib/modeling_utils.py", "_load_state_dict_into_meta", "param = param[...]");
        assert_eq!(phase(&[into]).unwrap().0, PhaseName::Load);
        let own = ("train.py", "<module>", "checkpoint = torch.load(path)");
        assert_eq!(phase(&[own]).unwrap().0, PhaseName::Resume);
    }
}
