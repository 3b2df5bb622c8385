//! `fitgpt devices`: memory, limits and cards of this machine; with `--watch`, over time.

use std::{fmt::Write as _, time::Duration};

use clap::{Arg, ArgAction, ArgMatches, Command};
use fitgpt_commands::{Failure, held_by};
use fitgpt_config::Config;
use fitgpt_exec::cpu::isa::Isa;
use fitgpt_files::os;
use fitgpt_program::units::Bytes;
use fitgpt_run::{
    budget::{HostLimit, HostMemory},
    cards::{NoDriver, NvidiaDriver, NvmlCard},
    device::{self, AvailableGpu, available_gpus},
    host,
};
use fitgpt_say::Say as _;
use serde_json::{Value, json};

use super::{Outcome, OutputStyle, args, selftest, watch};
use crate::{
    picture::meter::Meter,
    terminal,
    words::{devices as words, lang, left, names},
};

/// Columns of the names at the left.
const LABEL: usize = 10;

pub(super) fn command() -> Command {
    let seconds = |name: &'static str, help: &'static str| {
        let arg = Arg::new(name).long(name).value_name("SECONDS").requires("watch").help(help);
        arg.value_parser(duration)
    };
    let watch = Arg::new("watch")
        .long("watch")
        .value_name("PID")
        .num_args(0..=1)
        .value_parser(clap::value_parser!(u32))
        .help("Show the memory of a process or of the machine over time, and a config's plan");
    let selftest = Arg::new("selftest")
        .long("selftest")
        .action(ArgAction::SetTrue)
        .conflicts_with("watch")
        .help("Compare every op on a device with the reference, and time it");
    let command = Command::new("devices")
        .about("Shows memory, limits, CPU and cards of this machine; `--watch` shows them live")
        .arg(watch)
        .arg(selftest)
        .arg(seconds("every", "Read the memory every N seconds [default: 1]"))
        .arg(seconds("for", "End the watch after this time"))
        .after_help(
            "A watch ends with Ctrl-C, with its process, or after `--for`. It finds the plan of a\n\
             running `fitgpt train` by itself; a config on the command line takes precedence. A\n\
             Python process is compared with PyTorch's plan of the config.\n\n\
             A self-test runs every op on the device of the config (the best GPU, else the CPU) in\n\
             every type, compares it with the reference and times it; it exits with 1 if an op is\n\
             wrong. Its report is made to be pasted into an issue.\n\n\
             Examples:\n  fitgpt devices\n  fitgpt devices --json\n  fitgpt devices --selftest\n  \
             fitgpt devices --selftest --device=vulkan\n  fitgpt devices --watch 4711\n  \
             fitgpt devices --watch 4711 config/train_gpt2.py --batch_size=4\n  \
             fitgpt devices config/train_gpt2.py --engine torch --gpu \"RTX 4070\" --watch\n  \
             fitgpt devices --watch --every 0.5 --for 60 --json >> memory.jsonl",
        );
    args::with_keys(args::with_target(command, &["fitgpt", "torch"]))
}

/// A duration from a millisecond to a year.
fn duration(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    if (0.001..=31_536_000.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("not between 0.001 and 31536000 seconds".to_owned())
    }
}

pub(super) fn run(matches: &ArgMatches, style: OutputStyle) -> Result<Outcome, Failure> {
    if matches.contains_id("watch") {
        return watch::run(matches, style);
    }
    if matches.get_flag("selftest") {
        return selftest::run(matches, style);
    }
    let config = args::written(matches, None)?.resolve()?;
    let memory = host::memory();
    let driver = NvidiaDriver::open();
    match style {
        OutputStyle::Json => terminal::json(&document(&config, &memory, &driver)),
        OutputStyle::Text => {
            terminal::out(&text(&config, &memory, &driver));
            let plan = "fitgpt plan CONFIG.py --gpu NAME";
            terminal::line(&format!("{}  ({})", names::next(plan), words::plans()));
        }
    }
    Ok(Outcome::Yes)
}

/// Every kind of limit; `None` if it is not set here.
fn limits(memory: &HostMemory) -> [(HostLimit, Option<Bytes>); 4] {
    [
        (HostLimit::Available, Some(memory.available)),
        (HostLimit::ControlGroup, memory.cgroup_headroom),
        (HostLimit::AddressSpace, memory.address_space),
        (HostLimit::DataSegment, memory.data_segment),
    ]
}

const fn key(limit: HostLimit) -> &'static str {
    match limit {
        HostLimit::Available => "available",
        HostLimit::ControlGroup => "control-group",
        HostLimit::AddressSpace => "address-space",
        HostLimit::DataSegment => "data-segment",
    }
}

fn document(
    config: &Config,
    memory: &HostMemory,
    driver: &Result<NvidiaDriver, NoDriver>,
) -> Value {
    let (_, least) = memory.least();
    let limits: Vec<_> = limits(memory)
        .into_iter()
        .filter_map(|(limit, bytes)| Some(json!({ "limit": key(limit), "bytes": bytes? })))
        .collect();
    let device = memory.device(config.memory_budget().map(Bytes::new));
    let (version, cards, absent) = match driver {
        Ok(driver) => (Some(driver.version()), driver.cards(), None),
        Err(reason) => (
            None,
            Vec::new(),
            Some(json!({ "kind": reason.kind(), "message": reason.to_string() })),
        ),
    };
    let seen = available_gpus();
    let is_built_in = seen.is_some();
    let (gpus, vulkan) = seen.map_or((Vec::new(), None), |seen| (seen.gpus, Some(seen.vulkan)));
    let (vulkan, no_vulkan) = match vulkan {
        Some(Ok(version)) => (Some(version), None),
        Some(Err(why)) => (None, Some(why)),
        None => (None, None),
    };
    json!({
        "host": {
            "total_bytes": memory.total,
            "available_bytes": memory.available,
            "limits": limits,
            "least": key(least),
            "budget_bytes": device.usable_bytes,
        },
        "cpu": { "threads": device::threads(config), "simd": Isa::best().name() },
        "backends": if is_built_in { &["cpu", "gpu"][..] } else { &["cpu"] },
        "gpus": gpus,
        "vulkan": vulkan,
        "no_vulkan": no_vulkan,
        "driver": version,
        "no_driver": absent,
        "cards": cards,
        "cards_on_the_bus": os::nvidia_cards_on_the_bus(),
    })
}

fn text(config: &Config, memory: &HostMemory, driver: &Result<NvidiaDriver, NoDriver>) -> String {
    let mut text = String::new();
    let mut line = |label: String, content: &str| {
        let _ = writeln!(text, "{} {content}", left(&label, LABEL));
    };
    line(words::label_memory(), &words::memory(memory.total, memory.available));

    let (_, least) = memory.least();
    let mut label = words::label_limits();
    for (limit, bytes) in limits(memory) {
        let name = left(&words::limit(limit), 36);
        let mark = if limit == least { words::least() } else { String::new() };
        let bytes = bytes.map_or_else(words::no_limit, |bytes| format!("{bytes:>14}  {mark}"));
        line(std::mem::take(&mut label), format!("{name} {bytes}").trim_end());
    }
    let budget = match config.memory_budget().map(Bytes::new) {
        Some(budget) => words::budget_written(budget),
        None => words::budget(memory.usable()),
    };
    line(words::label_budget(), &budget);
    line(words::label_cpu(), &words::cpu(device::threads(config), Isa::best().name()));

    match driver {
        Err(reason) => line(words::label_cards(), &absent(reason)),
        Ok(driver) => {
            let (version, cards) = (driver.version(), driver.cards());
            let known = |text: Option<String>| text.unwrap_or_else(words::unknown);
            line(words::label_cards(), &words::driver(known(version.driver), known(version.cuda)));
            if cards.is_empty() {
                line(String::new(), &words::no_cards());
            }
            for card in &cards {
                for (index, content) in about(card).iter().enumerate() {
                    let label =
                        if index == 0 { words::label_card(card.index) } else { String::new() };
                    line(label, content);
                }
            }
        }
    }
    let on_the_bus = os::nvidia_cards_on_the_bus();
    if driver.is_err() && on_the_bus > 0 {
        line(String::new(), &words::on_the_bus(on_the_bus));
    }
    let Some(seen) = available_gpus() else {
        line(String::new(), &words::cpu_only());
        return text;
    };
    line("Vulkan".to_owned(), &seen.vulkan.unwrap_or_else(words::no_vulkan));
    for (index, gpu) in seen.gpus.iter().enumerate() {
        for (at, content) in about_gpu(gpu).iter().enumerate() {
            line(if at == 0 { words::label_gpu(index) } else { String::new() }, content);
        }
    }
    text
}

/// Lines about a GPU that this build can run on.
fn about_gpu(gpu: &AvailableGpu) -> Vec<String> {
    let mut lines = vec![format!("{} · {} · {}", gpu.name, gpu.interface, gpu.driver)];
    if let (Some(total), Some(free)) = (gpu.total_bytes, gpu.free_bytes) {
        lines.push(words::memory(total, free));
    }
    if let Some(budget) = gpu.budget_bytes {
        lines.push(words::gpu_budget(budget));
    }
    let shared = format!("{} KiB", gpu.shared_bytes.get() / 1024);
    lines.push(words::gpu_limits(gpu.max_allocation_bytes, gpu.max_binding_bytes, shared));
    let [least, most] = gpu.subgroup;
    let subgroup = if least == most { least.to_string() } else { format!("{least}–{most}") };
    lines.push(words::gpu_types(gpu.types.join(", "), subgroup));
    if gpu.is_software {
        lines.push(words::software());
    }
    lines
}

/// Why there are no cards.
fn absent(reason: &NoDriver) -> String {
    match reason {
        NoDriver::NoLibrary { library } => words::no_library(library),
        NoDriver::NotRunning => words::not_running(),
        NoDriver::Refused(error) => words::refused(error),
    }
}

/// Lines about a card.
fn about(card: &NvmlCard) -> Vec<String> {
    let bf16 = match card.has_bf16 {
        Some(true) => words::yes(),
        Some(false) => words::no(),
        None => words::unknown(),
    };
    let capability = card.compute_capability.clone().unwrap_or_else(words::unknown);
    let mut lines = vec![format!("{} · {}", card.name, words::capability(capability, bf16))];
    if let Some(memory) = card.memory {
        let (own, whole) = (memory.used_bytes, memory.total_bytes);
        let bar = Meter { own, others: Bytes::ZERO, whole, mark: None }.draw();
        lines.push(format!("{bar} {}", words::card_memory(own, memory.free_bytes, whole)));
    }
    if !card.processes.is_empty() {
        lines.push(held_by(&card.processes).say(lang()));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_is_positive_and_at_most_a_year() {
        assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "nan", "inf", "1e300", "", "2s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
