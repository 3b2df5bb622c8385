//! What the ranks agree on before the first step: whether one of them failed, the config, the
//! memory of the smallest machine, the instruction set.

use std::collections::BTreeMap;

use fitgpt_config::{Config, ConfigError, ConfigValue, LaneSplit, Location, Written, divisors};
use fitgpt_exec::cpu::isa::Isa;
use fitgpt_files::os;
use fitgpt_model::report::DeviceMemory;
use fitgpt_program::{Products, units::Bytes};
use fitgpt_run::{
    device::{self, Runner, device_in_turn},
    host,
    ranks::{ROOT, Ranks, SharedInput},
};
use fitgpt_say::Sentence;

use super::Failure;
use crate::words::{ranks as words, train};

/// Waits until all ranks have reached this point. If any of them failed, all return an error, and
/// the first one that failed reports it.
pub fn together<T>(ranks: &Ranks, result: Result<T, Failure>) -> Result<T, Failure> {
    #[cfg(any(test, feature = "simulated"))]
    let result = if ranks.fails_now() {
        Err(Failure::new("test", "this agreement must fail"))
    } else {
        result
    };
    let failed = ranks.gather_numbers(u64::from(result.is_err()));
    match failed.iter().position(|is_failed| *is_failed == 1) {
        None => result,
        Some(first) => match result {
            Err(failure) if first == ranks.rank() => Err(failure.agreed()),
            _ => Err(Failure::elsewhere()),
        },
    }
}

/// `None` if the answer is yes on every rank; else the first rank whose answer is no.
pub fn first_no(ranks: &Ranks, is_yes: bool) -> Option<usize> {
    #[cfg(any(test, feature = "simulated"))]
    let is_yes = !ranks.fails_now() && is_yes;
    ranks.gather_numbers(u64::from(is_yes)).iter().position(|yes| *yes == 0)
}

/// `None` if the answer is yes on every rank; else a rank whose answer is no, `preferred` if it is
/// one of them.
pub fn any_no(ranks: &Ranks, is_yes: bool, preferred: usize) -> Option<usize> {
    #[cfg(any(test, feature = "simulated"))]
    let is_yes = !ranks.fails_now() && is_yes;
    let all = ranks.gather_numbers(u64::from(is_yes));
    let first = all.iter().position(|yes| *yes == 0)?;
    Some(if all[preferred] == 0 { preferred } else { first })
}

/// Checks that all ranks were started with the same program and config.
pub fn check_same(ranks: &Ranks, written: &Written) -> Result<(), Failure> {
    ranks.check_same_program()?;
    Ok(ranks.check_same(SharedInput::Config, pairs(&written.resolve()?).as_bytes())?)
}

fn pairs(config: &Config) -> String {
    let pairs: BTreeMap<_, _> = config.pairs().into_iter().collect();
    serde_json::to_string(&pairs).expect("a config is plain data")
}

/// The root's config, on every rank: the config of a resumed run is only in the root's folder.
pub fn config_of_root(ranks: &Ranks, config: &Config) -> Result<Config, Failure> {
    if ranks.count() == 1 {
        return Ok(config.clone());
    }
    let text = ranks.from_root(&pairs(config));
    let pairs: BTreeMap<String, ConfigValue> =
        serde_json::from_str(&text).expect("the root has written it");
    Ok(Written::from_pairs("rank 0", pairs)?.resolve()?)
}

/// The config with its number of lanes, if they can be divided evenly among the ranks.
pub fn with_lanes(count: u32, config: &Config) -> Result<Config, Failure> {
    let accumulation = config.gradient_accumulation_steps();
    let lanes = config.lanes();
    if lanes != 0 && !accumulation.is_multiple_of(lanes) {
        let works = LaneSplit::near(config.batch_size(), accumulation, lanes);
        let place = Location::default_value();
        let error = ConfigError::LanesDoNotDivide { lanes, accumulation, works, place };
        return Err(Failure::of("lanes", &error));
    }
    if lanes == 0 && !accumulation.is_multiple_of(count) {
        let works = LaneSplit::near(config.batch_size(), accumulation, count);
        let failure = Failure::new("lanes", words::steps_and_ranks(accumulation, count));
        return Err(failure.hint(match works {
            LaneSplit::Batch { .. } => words::works(works.arguments()),
            LaneSplit::Lanes(fewer) => words::works_with_processes(fewer),
        }));
    }
    if lanes == 0 {
        return Ok(config.with("ranks", [("lanes", count.into())])?);
    }
    if !lanes.is_multiple_of(count) {
        let failure = Failure::new("lanes", words::lanes_and_ranks(lanes, count));
        let fewer = divisors(lanes.into()).into_iter().rfind(|n| *n < u64::from(count));
        return Err(failure.hint(words::works_with_processes(fewer.unwrap_or(1))));
    }
    Ok(config.clone())
}

/// The device of this rank: its share of the machine's cores, with the best instruction set that
/// all ranks have, or a GPU; its memory; and a note on the arithmetic of its products. If one of them
/// has no device, all return an error.
pub fn runner(
    ranks: &Ranks,
    config: &Config,
) -> Result<(Runner, DeviceMemory, Option<Sentence>), Failure> {
    let with_memory = |runner: Runner| {
        let memory = runner.device(config)?;
        Ok((runner, memory))
    };
    if ranks.count() == 1 {
        let (runner, memory) = Runner::of(config).map_err(Failure::from).and_then(with_memory)?;
        let note = HasPairs(vec![Isa::best().has_pairs()]).note(&runner, config);
        return Ok((runner, memory, note));
    }
    let threads = match config.threads() {
        0 => (device::threads(config) / sharers_of_cores(ranks)).max(1) as u32,
        written => written,
    };
    let device = device_in_turn(config.device(), ranks.index_on_host());
    let changes = [("threads", threads.into()), ("device", device.to_string().into())];
    let own = config.with("ranks", changes).map_err(Failure::from);
    let found = own.and_then(|own| with_memory(Runner::of(&own)?));
    let (found, memory) = together(ranks, found)?;
    let names: Vec<_> = Isa::all().map(Isa::name).collect();
    let products = if Isa::best().has_pairs() { PAIRS } else { "" };
    let all = ranks.gather_texts(&format!("{} {products}", names.join(" ")));
    let has = |list: &String, name: &str| list.split(' ').any(|has| has == name);
    let common = names.into_iter().find(|name| all.iter().all(|list| has(list, name)));
    let has_pairs = HasPairs(all.iter().map(|list| has(list, PAIRS)).collect());
    let runner = match (found, common.and_then(Isa::named)) {
        (Runner::Cpu(mut target), Some(isa)) => {
            target.isa = isa;
            target.products = has_pairs.products(config);
            Runner::Cpu(target)
        }
        (other, _) => other,
    };
    let note = has_pairs.note(&runner, config);
    Ok((runner, memory, note))
}

/// Stands for the instruction for bfloat16 products in a list of instruction sets.
const PAIRS: &str = "bfloat16-products";

/// Whether the CPU of each rank has that instruction.
struct HasPairs(Vec<bool>);

impl HasPairs {
    /// The factors of all ranks, which are the same: bfloat16 by default only if no rank emulates.
    fn products(&self, config: &Config) -> Products {
        device::products(config, self.0.iter().all(|has| *has))
    }

    /// What there is to say about the arithmetic of products: that the CPU of a rank emulates it, or
    /// that only some of the ranks' CPUs could be faster.
    fn note(&self, runner: &Runner, config: &Config) -> Option<Sentence> {
        let rank = self.0.iter().position(|has| !has)?;
        match runner.products(config)? {
            Products::Bfloat16 if self.0.len() == 1 => Some(train::emulated_products()),
            Products::Bfloat16 => Some(words::rank_emulates(rank)),
            Products::Float32 if self.0.contains(&true) && config.matmul_dtype().is_none() => {
                Some(words::rank_lacks_products(rank))
            }
            Products::Float32 => None,
        }
    }
}

/// How many ranks, including this one, may run on this rank's cores. Launchers either give each
/// rank separate cores or let all of them run anywhere.
fn sharers_of_cores(ranks: &Ranks) -> usize {
    let own = os::allowed_cores();
    let all = ranks.gather_texts(&own);
    let is_sharer = |(rank, cores): &(usize, String)| ranks.is_on_this_host(*rank) && *cores == own;
    all.into_iter().enumerate().filter(is_sharer).count()
}

/// The memory that every rank may use: the least share that any rank has of its machine, which has
/// `device`. Also returns which rank has the least.
pub fn memory(
    ranks: &Ranks,
    runner: &Runner,
    config: &Config,
    mut device: DeviceMemory,
) -> (DeviceMemory, usize) {
    if ranks.count() == 1 {
        return (device, ROOT);
    }
    if runner.is_host() {
        let shared = host::memory().usable().get() / ranks.count_on_host() as u64;
        device.usable_bytes = device.usable_bytes.min(Bytes::new(shared));
    }
    // Several ranks may share a device. A budget in the config is per rank.
    let own = device_in_turn(config.device(), ranks.index_on_host()).to_string();
    let all = ranks.gather_texts(&own);
    let is_sharer = |rank: &usize| ranks.is_on_this_host(*rank) && all[*rank] == own;
    let sharers = (0..ranks.count()).filter(is_sharer).count() as u64;
    if !runner.is_host() && config.memory_budget().is_none() {
        device.usable_bytes = Bytes::new(device.usable_bytes.get() / sharers);
    }
    let all = ranks.gather_numbers(device.usable_bytes.get());
    let least = (0..all.len()).min_by_key(|rank| all[*rank]).expect("there is at least one rank");
    device.usable_bytes = Bytes::new(all[least]);
    (device, least)
}

#[cfg(test)]
mod tests {
    use fitgpt_exec::cpu::CpuTarget;

    use super::*;

    /// The products of ranks with and without the instruction, and what is said about them.
    fn agreed(has: &[bool], keys: &[(&'static str, &'static str)]) -> (Products, Option<Sentence>) {
        let keys = keys.iter().map(|(key, value)| (*key, ConfigValue::from(*value)));
        let config = Config::default().with("test", keys).unwrap();
        let has = HasPairs(has.to_vec());
        let products = has.products(&config);
        let target = CpuTarget::new(1, Isa::best()).with_products(products);
        (products, has.note(&Runner::Cpu(target), &config))
    }

    #[test]
    fn ranks_without_the_instruction_decide_the_products_of_all_unless_a_key_does() {
        const HALF: (&str, &str) = ("dtype", "bfloat16");
        let [float32, bfloat16] = Products::ALL;
        let chosen = |products: Products| [HALF, ("matmul_dtype", products.name())];
        for has in [&[true][..], &[true, true, true]] {
            assert_eq!(agreed(has, &[HALF]), (bfloat16, None));
            assert_eq!(agreed(has, &chosen(float32)), (float32, None));
        }
        // No rank would be faster, so there is nothing to say.
        for has in [&[false][..], &[false, false]] {
            assert_eq!(agreed(has, &[HALF]), (float32, None));
        }
        let mixed = &[true, false, false][..];
        assert_eq!(agreed(mixed, &[HALF]), (float32, Some(words::rank_lacks_products(1))));
        assert_eq!(agreed(mixed, &chosen(float32)), (float32, None));
        assert_eq!(agreed(mixed, &chosen(bfloat16)), (bfloat16, Some(words::rank_emulates(1))));
        let emulated = Some(train::emulated_products());
        assert_eq!(agreed(&[false], &chosen(bfloat16)), (bfloat16, emulated));
        // Activations of another type are not multiplied so.
        assert_eq!(agreed(mixed, &[("dtype", "float32")]).1, None);
    }
}
