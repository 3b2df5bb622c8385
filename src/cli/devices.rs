//! `fitgpt devices`: what is here, and `--watch`: its memory over time.

use std::{fmt::Write as _, time::Duration};

use clap::{Arg, ArgMatches, Command};
use fitgpt_exec::cpu::isa::Isa;
use fitgpt_plan::{config::Config, units::Bytes};
use serde_json::{Value, json};

use super::{Answer, Failure, Reader, args, watch};
use crate::{
    budget::{HostLimit, HostMemory},
    cards::{Card, Driver, MemoryHolder, NoDriver},
    os,
    picture::meter::Meter,
    run::{
        device::{Here, here},
        setup,
    },
    terminal,
    words::{self, devices as say},
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
        .help("Memory over time, of a process or of the machine, against the plan of a config");
    let command = Command::new("devices")
        .about("Memory, limits, CPU and cards of this machine; `--watch` shows them live")
        .arg(watch)
        .arg(seconds("every", "Time between two samples [default: 1]"))
        .arg(seconds("for", "End the watch after this time"))
        .after_help(
            "A watch ends with Ctrl-C, with its process, or after `--for`. The plan of a\n\
             `fitgpt train` that runs is found by itself; a config on the command line goes first.\n\n\
             Examples:\n  fitgpt devices\n  fitgpt devices --json\n  fitgpt devices --watch 4711\n  \
             fitgpt devices --watch 4711 config/train_gpt2.py --batch_size=4\n  \
             fitgpt devices config/train_gpt2.py --engine torch --gpu \"RTX 4070\" --watch\n  \
             fitgpt devices --watch --every 0.5 --for 60 --json >> memory.jsonl",
        );
    args::with_keys(args::with_place(command, &["fitgpt", "torch"]))
}

/// A time that can be waited for: more than nothing, less than a year.
fn duration(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "it is not a number of seconds".to_owned())?;
    if (0.001..=31_536_000.0).contains(&seconds) {
        Ok(Duration::from_secs_f64(seconds))
    } else {
        Err("it is not between 0.001 and 31536000 seconds".to_owned())
    }
}

pub(super) fn run(matches: &ArgMatches, reader: Reader) -> Result<Answer, Failure> {
    if matches.contains_id("watch") {
        return watch::run(matches, reader);
    }
    let config = args::written(matches, None)?.resolve()?;
    let memory = os::host_memory();
    let driver = Driver::open();
    match reader {
        Reader::Programs => terminal::line(&document(&config, &memory, &driver).to_string()),
        Reader::People => terminal::out(&text(&config, &memory, &driver)),
    }
    Ok(Answer::Yes)
}

/// Every limit, whether or not it holds here.
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

fn document(config: &Config, memory: &HostMemory, driver: &Result<Driver, NoDriver>) -> Value {
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
    let seen = here();
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
        "cpu": { "threads": setup::threads(config), "simd": Isa::best().name() },
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

fn text(config: &Config, memory: &HostMemory, driver: &Result<Driver, NoDriver>) -> String {
    let mut text = String::new();
    let mut line = |label: String, said: &str| {
        let _ = writeln!(text, "{} {said}", words::left(&label, LABEL));
    };
    line(say::label_memory(), &say::memory(memory.total, memory.available));

    let (_, least) = memory.least();
    let mut label = say::label_limits();
    for (limit, bytes) in limits(memory) {
        let name = words::left(&say::limit(limit), 36);
        let mark = if limit == least { say::least() } else { String::new() };
        let bytes = bytes.map_or_else(say::no_limit, |bytes| format!("{bytes:>14}  {mark}"));
        line(std::mem::take(&mut label), format!("{name} {bytes}").trim_end());
    }
    let budget = match config.memory_budget().map(Bytes::new) {
        Some(budget) => say::budget_written(budget),
        None => say::budget(memory.usable()),
    };
    line(say::label_budget(), &budget);
    line(say::label_cpu(), &say::cpu(setup::threads(config), Isa::best().name()));

    match driver {
        Err(reason) => line(say::label_cards(), &absent(reason)),
        Ok(driver) => {
            let (version, cards) = (driver.version(), driver.cards());
            let known = |text: Option<String>| text.unwrap_or_else(say::unknown);
            line(say::label_cards(), &say::driver(known(version.driver), known(version.cuda)));
            if cards.is_empty() {
                line(String::new(), &say::no_cards());
            }
            for card in &cards {
                for (index, said) in about(card).iter().enumerate() {
                    let label =
                        if index == 0 { say::label_card(card.index) } else { String::new() };
                    line(label, said);
                }
            }
        }
    }
    let on_the_bus = os::nvidia_cards_on_the_bus();
    if driver.is_err() && on_the_bus > 0 {
        line(String::new(), &say::on_the_bus(on_the_bus));
    }
    let Some(seen) = here() else {
        line(String::new(), &say::cpu_only());
        return text;
    };
    line("Vulkan".to_owned(), &seen.vulkan.unwrap_or_else(say::no_vulkan));
    for (index, gpu) in seen.gpus.iter().enumerate() {
        for (at, said) in about_gpu(gpu).iter().enumerate() {
            line(if at == 0 { say::label_gpu(index) } else { String::new() }, said);
        }
    }
    text
}

/// A GPU that this build can run on, in lines.
fn about_gpu(gpu: &Here) -> Vec<String> {
    let mut lines = vec![format!("{} · {} · {}", gpu.name, gpu.interface, gpu.driver)];
    if let (Some(total), Some(free)) = (gpu.total_bytes, gpu.free_bytes) {
        lines.push(say::memory(total, free));
    }
    if let Some(budget) = gpu.budget_bytes {
        lines.push(say::gpu_budget(budget));
    }
    let shared = format!("{} KiB", gpu.shared_bytes.get() / 1024);
    lines.push(say::gpu_limits(gpu.max_allocation_bytes, gpu.max_binding_bytes, shared));
    let [least, most] = gpu.subgroup;
    let subgroup = if least == most { least.to_string() } else { format!("{least}–{most}") };
    lines.push(say::gpu_types(gpu.types.join(", "), subgroup));
    if gpu.is_software {
        lines.push(say::software());
    }
    lines
}

/// Why there are no cards.
fn absent(reason: &NoDriver) -> String {
    match reason {
        NoDriver::NoLibrary { library } => say::no_library(library),
        NoDriver::NotRunning => say::not_running(),
        NoDriver::Refused(error) => say::refused(error),
    }
}

/// A card, in lines.
fn about(card: &Card) -> Vec<String> {
    let bf16 = match card.has_bf16 {
        Some(true) => say::yes(),
        Some(false) => say::no(),
        None => say::unknown(),
    };
    let capability = card.compute_capability.clone().unwrap_or_else(say::unknown);
    let mut lines = vec![format!("{} · {}", card.name, say::capability(capability, bf16))];
    if let Some(memory) = card.memory {
        let (own, whole) = (memory.used_bytes, memory.total_bytes);
        let bar = Meter { own, others: Bytes::ZERO, whole, mark: None }.draw();
        lines.push(format!("{bar} {}", say::card_memory(own, memory.free_bytes, whole)));
    }
    if !card.processes.is_empty() {
        lines.push(say::held_by(holders(&card.processes)));
    }
    lines
}

/// `4711 python 512.0 MiB, …`
pub(super) fn holders<'a>(list: impl IntoIterator<Item = &'a MemoryHolder>) -> String {
    let one = |holder: &MemoryHolder| {
        let name = holder.name.as_deref().unwrap_or("?");
        let bytes = holder.bytes.map_or_else(|| "?".to_owned(), |bytes| bytes.to_string());
        format!("{} {name} {bytes}", holder.pid)
    };
    list.into_iter().map(one).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_that_cannot_be_waited_for_are_refused() {
        assert_eq!(duration("0.5"), Ok(Duration::from_millis(500)));
        for text in ["0", "-1", "nan", "inf", "1e300", "", "2s"] {
            assert!(duration(text).is_err(), "{text}");
        }
    }
}
