//! The one ordered list of steps: computed config changes and recommendations, each with its command.

use super::{Invocation, Remedy};
use crate::{
    cause::Cause,
    diagnosis::{Advice, Finding, Fix, Step, StepName},
    facts::Certainty,
    parse::QuotedCommand,
};

/// Maximum number of steps.
const MOST: usize = 8;
/// Maximum number of computed changes among them.
const MOST_FIXES: usize = 4;

/// The steps, best first. A recommendation that a computed change already applies is left out.
pub(crate) fn steps(
    advice: &[Advice],
    fixes: &[Fix],
    findings: &[Finding],
    invocation: &Invocation<'_>,
    quoted: &QuotedCommand,
) -> Vec<Step> {
    let is_cause = |is: fn(&Cause) -> bool| findings.iter().any(|f| f.is_cause && is(&f.cause));
    let is_theirs = is_cause(|cause| matches!(cause, Cause::ForeignMemory { .. }));
    let is_undecided = findings.iter().all(|f| !f.is_cause || f.certainty == Certainty::Unknown);
    let shown: Vec<(usize, &Fix)> = fixes.iter().enumerate().take(MOST_FIXES).collect();
    let computed = shown.iter().map(|(index, fix)| Step {
        id: StepName::Change(*index),
        command: Some(fix.command.clone()),
        code: Vec::new(),
        saved_bytes: Some(fix.saved_bytes),
        keeps_training: Some(fix.keeps_training),
        is_safe: false,
    });
    let is_applied = |remedy: Remedy| shown.iter().any(|(_, fix)| applies(fix, remedy));
    let advised = advice.iter().filter(|advice| !is_applied(advice.id));
    let advised = advised.map(|advice| {
        let (command, code) = command_of(advice, invocation, quoted);
        Step {
            id: StepName::Remedy(advice.id),
            command,
            code,
            saved_bytes: None,
            keeps_training: advice.id.keeps_training(),
            is_safe: is_undecided && is_safe(advice.id),
        }
    });
    let mut list: Vec<Step> = if is_theirs || shown.is_empty() {
        advised.chain(computed).collect()
    } else {
        computed.chain(advised).collect()
    };
    list.truncate(MOST);
    list
}

/// Steps that change nothing about the result.
fn is_safe(remedy: Remedy) -> bool {
    remedy != Remedy::RecordSnapshot && remedy.keeps_training() == Some(true)
}

/// Whether a computed change does what a recommendation says.
fn applies(fix: &Fix, remedy: Remedy) -> bool {
    let keys: &[&str] = match remedy {
        Remedy::SmallerMicroBatch => &["batch_size"],
        Remedy::GradientCheckpointing => &["grad_checkpoint"],
        Remedy::ChunkedLoss => &["loss_chunk_rows"],
        Remedy::EvalBatch => &["eval_batch_size"],
        Remedy::ShorterSequences => &["block_size"],
        _ => return false,
    };
    fix.changes.iter().any(|(key, _)| keys.contains(key))
}

/// The command of a recommendation and, if it is a change of code, its lines.
fn command_of(
    advice: &Advice,
    invocation: &Invocation<'_>,
    quoted: &QuotedCommand,
) -> (Option<String>, Vec<String>) {
    let (shell, code): (Vec<&String>, Vec<&String>) = advice.commands.iter().partition(|line| {
        // Installing a package is a step only if no code has to follow.
        is_shell(line) || line.starts_with("pip install") && advice.commands.len() == 1
    });
    let mut command = shell.first().map(|line| (*line).clone());
    let mut code: Vec<String> = code.into_iter().cloned().collect();
    // Flags complete the command that the user quotes.
    let flags: Option<Vec<(&str, &str)>> = code.first().and_then(|line| flags_of(line));
    if let (None, Some(flags)) = (&command, flags)
        && let Some(line) = quoted.with_flags(&flags)
    {
        command = Some(line);
        code.clear();
    }
    if let (Some(line), Some(config)) = (&mut command, invocation.config()) {
        for other in shell.iter().skip(1) {
            line.extend([" && ", other.as_str()]);
        }
        if !line.contains(config) {
            line.extend([" && ", &invocation.train(&[], &[])]);
        }
    } else {
        code.extend(shell.into_iter().skip(1).cloned());
    }
    (command, code)
}

/// `--a 1 --b 2` as pairs; `None` for anything else.
fn flags_of(line: &str) -> Option<Vec<(&str, &str)>> {
    let words: Vec<&str> = line.split_whitespace().take_while(|word| *word != "#").collect();
    let pairs = words.chunks(2).map(|pair| match pair {
        [flag, value] if !value.starts_with("--") => Some((flag.strip_prefix("--")?, *value)),
        _ => None,
    });
    pairs.collect::<Option<Vec<_>>>().filter(|pairs| !pairs.is_empty())
}

/// Whether a line is typed into a shell rather than written into a script.
fn is_shell(line: &str) -> bool {
    const PROGRAMS: &[&str] = &[
        "python",
        "fitgpt",
        "torchrun",
        "nvidia-smi",
        "rocm-smi",
        "xpu-smi",
        "kill",
        "docker",
        "vllm",
        "ollama",
        "llama-server",
        "llama-quantize",
        "text-generation-launcher",
        "accelerate",
        "set",
        "trtexec",
        "mlx_lm.lora",
        "mlx_lm.convert",
        "systeminfo",
        "free",
        "yolo",
        "SystemPropertiesPerformance.exe",
    ];
    let is_variable = |word: &str| {
        word.split_once('=').is_some_and(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_')
        })
    };
    let first = line.split_whitespace().find(|word| !is_variable(word)).unwrap_or_default();
    PROGRAMS.contains(&first)
}
