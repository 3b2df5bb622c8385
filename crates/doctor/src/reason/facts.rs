//! What the numbers of the message alone prove.

use fitgpt_fit::device::{CUDA_CONTEXT_BYTES, CUDA_CONTEXT_MOST_BYTES};

use crate::{
    diagnosis::MemoryFacts,
    parse::{Log, Message, PrintedSize},
};

/// The numbers, including the memory of other processes. `total` is the capacity of the card if
/// the message has none.
pub(crate) fn facts(log: &Log, total: Option<u64>) -> MemoryFacts {
    let Some(message) = &log.message else { return MemoryFacts::default() };
    let smi_total = log.setup.smi.map(|[_, total]| total);
    let total = message.total.or(total.or(smi_total).map(PrintedSize::exact));
    let [held, taken] = log.setup.summary;
    let process = message.process.or_else(|| own_process(message));
    MemoryFacts {
        requested: message.requested,
        total: total.or_else(|| named_card(log)),
        free: message.free,
        allocated: message.allocated.or(held),
        reserved: message.reserved.or(taken),
        process,
        foreign: foreign(total, message.free, process, message.reserved).or(message.theirs),
        unallocated: message.unallocated,
        allowed: message.allowed,
    }
}

/// The memory of the card that the text names. It is not exact: cards of one name differ, and part
/// of the memory may be reserved.
fn named_card(log: &Log) -> Option<PrintedSize> {
    let cards = &log.setup.cards;
    let total = match (cards.only(), cards.said_gib) {
        (Some(card), _) => card.total_bytes().get(),
        (None, gib) => gib? << 30,
    };
    Some(PrintedSize { bytes: total, low: total - total / 50, high: total + total / 50 })
}

/// In a container a process does not know its own id, and the message lists it like any other. It
/// is the only one large enough to hold what PyTorch has reserved.
fn own_process(message: &Message) -> Option<PrintedSize> {
    let reserved = message.reserved?;
    let mut able = message.processes.iter().filter(|(_, size)| size.high >= reserved.low);
    match (able.next(), able.next()) {
        (Some((_, only)), None) => Some(*only),
        _ => None,
    }
}

/// Memory that is neither free nor this process's. If the message does not give the total of this
/// process, its CUDA context is known only within bounds, and a remainder within them is unknown.
fn foreign(
    total: Option<PrintedSize>,
    free: Option<PrintedSize>,
    process: Option<PrintedSize>,
    reserved: Option<PrintedSize>,
) -> Option<PrintedSize> {
    let taken = total?.minus(free?);
    if let Some(process) = process {
        return Some(taken.minus(process));
    }
    let rest = taken.minus(reserved?);
    let [least, most] = [CUDA_CONTEXT_BYTES[0].get(), CUDA_CONTEXT_MOST_BYTES.get()];
    if rest.bytes <= least {
        return Some(PrintedSize::exact(0));
    }
    let sure = rest.bytes.saturating_sub(most);
    (sure > 0).then(|| PrintedSize { bytes: sure, low: sure, high: rest.bytes - least })
}

#[cfg(test)]
mod tests {
    use super::*;

    const GIB: u64 = 1 << 30;

    fn of(text: &str) -> MemoryFacts {
        facts(&Log::read(text.as_bytes()), None)
    }

    fn hundredths(size: Option<PrintedSize>) -> Option<u64> {
        size.map(|size| (size.bytes * 100 + GIB / 2) / GIB)
    }

    #[test]
    fn the_rest_of_the_card_belongs_to_other_processes() {
        let facts = of(
            "CUDA out of memory. Tried to allocate 6.14 GiB. GPU 0 has a total capacity of 11.69 GiB \
             of which 2.68 GiB is free. Including non-PyTorch memory, this process has 7.04 GiB memory in use. \
             Of the allocated memory 6.78 GiB is allocated by PyTorch, and 61.24 MiB is reserved",
        );
        assert_eq!(hundredths(facts.foreign), Some(197)); // 11.69 - 2.68 - 7.04
    }

    #[test]
    fn a_process_that_only_has_an_id_is_ours_if_no_other_is_large_enough() {
        let facts = of(
            "CUDA out of memory. Tried to allocate 174.00 MiB. GPU 0 has a total capacty of 39.39 GiB of which \
             61.81 MiB is free. Process 41873 has 39.33 GiB memory in use. Of the allocated memory 37.66 GiB is \
             allocated by PyTorch, and 318.74 MiB is reserved by PyTorch but unallocated.",
        );
        assert_eq!(hundredths(facts.process), Some(3933));
        assert_eq!(hundredths(facts.foreign), Some(0));
    }

    #[test]
    fn without_a_process_size_only_more_than_a_context_is_foreign() {
        let old = |free: &str, reserved: &str| {
            of(&format!(
                "CUDA out of memory. Tried to allocate 394.00 MiB (GPU 0; 15.77 GiB total capacity; \
                 5.21 GiB already allocated; {free} GiB free; {reserved} GiB reserved in total by PyTorch)"
            ))
        };
        assert_eq!(hundredths(old("8.54", "5.30").foreign), Some(93)); // 1.93, less 1
        assert_eq!(old("9.83", "5.30").foreign, None); // 0.64: a context, or not
        assert_eq!(hundredths(old("10.40", "5.30").foreign), Some(0));
    }
}
