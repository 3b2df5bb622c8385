//! Harmless lines that are often mistaken for the cause.

use super::squeezed::Passage;

/// A harmless line.
#[derive(Debug, PartialEq, Eq)]
pub struct Note {
    /// Its name in reports.
    pub name: &'static str,
    words: &'static [&'static str], // all must occur, without white space
}

impl Note {
    pub(super) fn is_in(&self, passage: Passage<'_>) -> bool {
        let (first, rest) = self.words.split_first().expect("a note has words");
        // The other words follow in the same warning.
        let near = |text: &str| rest.iter().all(|words| text.contains(words));
        passage.find(first).any(|place| {
            let end =
                (0..=place.after.len().min(300)).rev().find(|i| place.after.is_char_boundary(*i));
            near(&place.after[..end.unwrap_or(0)])
        })
    }
}

/// All notes.
pub static NOTES: &[Note] = &[
    Note { name: "few-multiprocessors", words: &["notenoughsmstousemax_autotune"] },
    Note { name: "grad-scaler-deprecated", words: &["gradscaler(", "deprecated"] },
    Note { name: "autocast-deprecated", words: &["autocast(", "deprecated"] },
    Note { name: "load-weights-only", words: &["torch.load`with`weights_only=false"] },
    Note { name: "fragmentation-hint", words: &["ifreservedmemoryis>>"] },
    Note { name: "fragmentation-hint", words: &["ifreservedbutunallocatedmemoryislarge"] },
    Note { name: "matmul-precision", words: &["tensorfloat32tensorcores"] },
    Note { name: "omp-threads", words: &["omp_num_threads", "default"] },
    Note { name: "process-group-not-destroyed", words: &["destroy_process_group()wasnotcalled"] },
    Note { name: "slow-attention", words: &["usingslowattention"] },
    Note { name: "asynchronous-report", words: &["kernelerrorsmightbeasynchronouslyreported"] },
    Note { name: "lr-scheduler-order", words: &["lr_scheduler.step()", "beforeoptimizer.step()"] },
];
