//! What a plan is made for: a card of the catalogue, a card or the memory of this machine, or a
//! budget; and which engine runs it.
//!
//! A plan for a card that need not be present counts our programs with the scratch of the CPU
//! kernels and adds the card's context and libraries as a range. A plan for a GPU of this machine
//! uses the scratch of the GPU kernels and the free memory that the driver reports.

use fitgpt_config::{Config, DeviceChoice, Family, OptimizerChoice, Precision, parse_size};
use fitgpt_fit::{
    device::{self, CardSpec},
    fit::Change,
    torch::{self, Rules, TorchOptions},
};
use fitgpt_model::{
    report::{DeviceMemory, Overhead},
    shard::Share,
};
use fitgpt_program::units::Bytes;
use fitgpt_run::{budget::A_CARD, cards, device::Runner, host};
use fitgpt_say::Sentence;

use super::Failure;
use crate::words::target as messages;

/// The engine that runs the config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EngineChoice {
    /// FitGPT.
    Fitgpt,
    /// nanoGPT under PyTorch.
    Torch,
}

/// The flags about the device of a plan.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeviceFlags<'a> {
    /// `--gpu`.
    pub gpu: Option<&'a str>,
    /// `--reserve`.
    pub reserve: Option<&'a str>,
    /// Whether two engines are planned side by side.
    pub is_compared: bool,
}

/// The engine and the device of a plan.
#[derive(Clone, Debug)]
pub struct PlanTarget {
    /// What runs it.
    pub engine: EngineChoice,
    /// Whether PyTorch runs on a card or on the CPU.
    pub rules: Rules,
    /// Whose memory.
    pub device: DeviceMemory,
    /// What is needed in addition to the tensors.
    pub overhead: Overhead,
    /// The config's `dtype`, or the device's default.
    pub precision: Precision,
    /// Whether the device computes in bfloat16.
    pub has_bf16: bool,
    /// The rank whose memory is planned.
    pub share: Share,
    /// Whether `--gpu` named it.
    pub is_card: bool,
    /// The catalogue's entry, if the device is one of its cards.
    pub card: Option<&'static CardSpec>,
    /// The backend whose kernels are planned: this machine's device, or the CPU for a card of the
    /// catalogue.
    pub runner: Runner,
}

/// `config` with one thread and float32 factors: a plan for a card must not depend on the host that
/// makes it.
pub fn for_a_card(config: &Config) -> Result<Config, Failure> {
    Ok(config.with("gpu", [("threads", 1i64.into()), ("matmul_dtype", "float32".into())])?)
}

impl PlanTarget {
    /// The target of `engine` on the device of `flags`.
    pub fn on(
        engine: EngineChoice,
        flags: DeviceFlags<'_>,
        config: &Config,
    ) -> Result<Self, Failure> {
        if engine == EngineChoice::Torch && config.family() != Family::Gpt2 {
            let failure = Failure::new("family", messages::torch_family(config.family()));
            return Err(failure.hint(messages::torch_pretend()));
        }
        let optimizer = config.optimizer();
        if engine == EngineChoice::Torch && optimizer != OptimizerChoice::AdamW {
            let message = messages::nanogpt_has_adamw(optimizer.name());
            return Err(Failure::new("optimizer", message));
        }
        if let (Some(name), DeviceChoice::Cpu) = (flags.gpu, config.device()) {
            let failure = Failure::new("usage", messages::cpu_and_card(name));
            return Err(failure.hint(messages::one_device()));
        }
        let mut target = match (flags.gpu, engine) {
            (Some(name), _) => Self::of_card(engine, name, config)?,
            (None, EngineChoice::Fitgpt) => Self::here(config)?,
            // If FitGPT is planned on the host, PyTorch is compared on the host as well.
            (None, EngineChoice::Torch) if flags.is_compared && runs_on_host(config)? => {
                Self::of_torch(Rules::Cpu, config)?
            }
            (None, EngineChoice::Torch) => Self::of_torch(rules(config), config)?,
        };
        if let Some(reserve) = reserve(flags.reserve)? {
            target.device.usable_bytes = target.device.usable_bytes.saturating_sub(reserve);
        }
        Ok(target)
    }

    /// A card of the catalogue.
    fn of_card(engine: EngineChoice, name: &str, config: &Config) -> Result<Self, Failure> {
        let gpu = device::find(name)?;
        let total_bytes = gpu.total_bytes();
        let usable_bytes = budget(config).map_or(total_bytes, |budget| budget.min(total_bytes));
        let device = DeviceMemory { name: gpu.name.to_owned(), total_bytes, usable_bytes };
        let overhead = match engine {
            EngineChoice::Torch => {
                torch::overhead_with(Rules::Cuda, config.compile() && gpu.has_triton())
            }
            // Context and libraries count for any engine, but FitGPT compiles nothing.
            EngineChoice::Fitgpt => {
                Overhead { compile_bytes: [Bytes::ZERO; 2], ..torch::overhead(config) }
            }
        };
        let half = if gpu.has_bf16() { Precision::Bfloat16 } else { Precision::Float16 };
        Ok(Self {
            engine,
            rules: Rules::Cuda,
            device,
            overhead,
            precision: config.precision_or(half),
            has_bf16: gpu.has_bf16(),
            share: Share::WHOLE,
            is_card: true,
            card: Some(gpu),
            runner: Runner::cpu(&for_a_card(config)?),
        })
    }

    /// The device of this machine that FitGPT would run on.
    fn here(config: &Config) -> Result<Self, Failure> {
        Self::of_runner(config, Runner::for_a_plan(config)?)
    }

    /// The device that `runner` has opened.
    pub fn of_runner(config: &Config, runner: Runner) -> Result<Self, Failure> {
        Ok(Self {
            engine: EngineChoice::Fitgpt,
            rules: Rules::Cuda,
            device: runner.device(config)?,
            overhead: runner.overhead(),
            precision: runner.precision(config),
            has_bf16: runner.has_bf16(),
            share: Share::WHOLE,
            is_card: false,
            card: None,
            runner,
        })
    }

    /// PyTorch without `--gpu`: the host, this machine's card, or a card of the budget's size.
    fn of_torch(rules: Rules, config: &Config) -> Result<Self, Failure> {
        let budget = budget(config);
        let (device, has_bf16, suits) = match rules {
            Rules::Cpu => (host::memory().device(budget), true, Precision::Float32),
            Rules::Cuda => match (card_here(config.device()), budget) {
                (Some((device, has_bf16)), _) => {
                    let usable_bytes = budget.unwrap_or(device.usable_bytes);
                    let half = if has_bf16 { Precision::Bfloat16 } else { Precision::Float16 };
                    (DeviceMemory { usable_bytes, ..device }, has_bf16, half)
                }
                (None, Some(budget)) => {
                    let name = A_CARD.to_owned();
                    let device = DeviceMemory { name, total_bytes: budget, usable_bytes: budget };
                    (device, true, Precision::Bfloat16)
                }
                (None, None) => return Err(no_card()),
            },
        };
        let card = device::find(&device.name).ok().filter(|_| rules == Rules::Cuda);
        let is_compiled = config.compile() && card.is_none_or(CardSpec::has_triton);
        let precision = match rules {
            // nanoGPT has no autocast on a CPU.
            Rules::Cpu => Precision::Float32,
            Rules::Cuda => config.precision_or(suits),
        };
        Ok(Self {
            engine: EngineChoice::Torch,
            rules,
            device,
            overhead: torch::overhead_with(rules, is_compiled),
            precision,
            has_bf16,
            share: Share::WHOLE,
            is_card: false,
            card,
            runner: Runner::cpu(config),
        })
    }

    /// What PyTorch has on the device.
    pub fn kernels(&self) -> TorchOptions {
        let has_triton = self.card.is_none_or(CardSpec::has_triton);
        let ddp_world = self.share.ranks.into();
        TorchOptions { has_triton, ddp_world, ..TorchOptions::on(self.rules) }
    }

    /// PyTorch's options for `config`.
    pub fn torch_options(&self, config: &Config) -> TorchOptions {
        self.kernels().of_config(config, self.precision)
    }

    /// What has to be changed in `config` so that PyTorch runs it on the device at all.
    pub fn required_changes(&self, config: &Config) -> Vec<Change> {
        let is_torch = self.engine == EngineChoice::Torch;
        let is_refused = is_torch && config.compile() && !self.kernels().has_triton;
        if is_refused { vec![("compile", false.into())] } else { Vec::new() }
    }

    /// What the plan assumes about PyTorch on the device, where that is not what `config` says or
    /// what people expect.
    pub fn notes(&self, config: &Config) -> Vec<Sentence> {
        if self.engine != EngineChoice::Torch {
            return Vec::new();
        }
        let mut notes = Vec::new();
        if self.rules == Rules::Cpu && config.precision_or(Precision::Float32) != self.precision {
            notes.push(messages::float32_on_a_cpu());
        }
        let Some(card) = self.card else { return notes };
        if !self.required_changes(config).is_empty() {
            notes.push(messages::no_triton(card.name));
        }
        if let Some(builds) = card.legacy_builds() {
            let (since, cuda, last) = (builds.since, builds.cuda, builds.last);
            notes.push(messages::legacy_builds(card.name, since, cuda, last, builds.index()));
        }
        notes
    }
}

fn budget(config: &Config) -> Option<Bytes> {
    config.memory_budget().map(Bytes::new)
}

/// PyTorch's rules without `--gpu`.
fn rules(config: &Config) -> Rules {
    match config.device() {
        DeviceChoice::Cpu => Rules::Cpu,
        _ => Rules::Cuda,
    }
}

/// Whether FitGPT would run `config` on the host.
fn runs_on_host(config: &Config) -> Result<bool, Failure> {
    Ok(Runner::for_a_plan(config)?.gpu().is_none())
}

/// The bytes that `--reserve` leaves free for others, such as a desktop.
fn reserve(text: Option<&str>) -> Result<Option<Bytes>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let bytes = parse_size(text);
    bytes.map(|bytes| Some(Bytes::new(bytes))).ok_or_else(|| {
        Failure::new("usage", messages::no_size("--reserve", text)).hint(messages::sizes())
    })
}

/// The NVIDIA card that `choice` names, with its free memory.
fn card_here(choice: DeviceChoice) -> Option<(DeviceMemory, bool)> {
    let index = match choice {
        DeviceChoice::Cuda(index) | DeviceChoice::Gpu(index) => index.unwrap_or(0),
        _ => 0,
    };
    let card =
        cards::NvidiaDriver::open().ok()?.cards().into_iter().find(|card| card.index == index)?;
    let memory = card.memory?;
    let device = DeviceMemory {
        name: card.name,
        total_bytes: memory.total_bytes,
        usable_bytes: memory.free_bytes,
    };
    Some((device, card.has_bf16.unwrap_or(true)))
}

fn no_card() -> Failure {
    Failure::new("device", messages::no_card()).hint(messages::name_a_card())
}
