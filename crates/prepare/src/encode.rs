//! Encodes text to token files, in order and on all cores.
//!
//! The caller's thread reads and writes; workers encode. A job is a few hundred kilobytes of text,
//! and at most two jobs per worker are in progress, so memory does not grow with the input.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, PoisonError,
        mpsc::{Receiver, Sender, channel},
    },
    thread::Scope,
};

use fitgpt_data::{
    Split,
    tokenizer::{DocumentEncoder, TokenIds, Tokenizer, TokenizerError},
};

use super::{
    PrepareError,
    cut::PIECE_BYTES,
    shards::{TokenDraft, TokenWidth},
};

/// More workers than this would be idle, because one thread reads and writes, and would cost
/// memory.
pub(super) const WORKERS_LIMIT: usize = 32;

/// The most items in a job: documents without text take memory too.
const JOB_ITEMS: usize = 1 << 16;

/// Text that is encoded at once, and tokens between its parts.
#[derive(Debug, Default)]
struct EncodeJob {
    text: String,
    ids: Vec<u32>,
    items: Vec<EncodeItem>,
}

#[derive(Clone, Copy, Debug)]
enum EncodeItem {
    /// The text up to `end`, encoded separately.
    Text { end: usize, split: Split },
    /// The tokens up to `end`, unchanged.
    Ids { end: usize, split: Split },
}

/// The bytes that a job adds to both files.
#[derive(Debug, Default)]
struct EncodedTokens {
    train: Vec<u8>,
    val: Vec<u8>,
}

impl EncodedTokens {
    fn of(&mut self, split: Split) -> &mut Vec<u8> {
        match split {
            Split::Train => &mut self.train,
            Split::Val => &mut self.val,
        }
    }
}

type EncodeResult = Result<EncodedTokens, TokenizerError>;
type Jobs = Receiver<(EncodeJob, Sender<EncodeResult>)>;

/// The token files of both splits.
#[derive(Debug)]
pub(super) struct Outputs {
    pub(super) width: TokenWidth,
    pub(super) train: TokenDraft,
    pub(super) val: TokenDraft,
}

impl Outputs {
    /// How many tokens were written to both files.
    pub(super) fn tokens(&self) -> u64 {
        (self.train.bytes() + self.val.bytes()) / self.width.bytes()
    }

    fn write(&mut self, encoded: &EncodedTokens) -> Result<(), PrepareError> {
        self.train.write(&encoded.train)?;
        self.val.write(&encoded.val)
    }
}

/// Encodes text on several threads and writes the tokens.
pub(super) struct TokenWriter<'a> {
    jobs: Sender<(EncodeJob, Sender<EncodeResult>)>,
    in_progress: VecDeque<Receiver<EncodeResult>>,
    in_progress_limit: usize,
    job: EncodeJob,
    outputs: &'a mut Outputs,
}

impl<'a> TokenWriter<'a> {
    /// Starts `workers` threads, which end with the encoder.
    pub(super) fn start<'scope>(
        scope: &'scope Scope<'scope, '_>,
        tokenizer: &'scope Tokenizer,
        workers: usize,
        outputs: &'a mut Outputs,
    ) -> Self {
        let (sender, jobs) = channel();
        let jobs = Arc::new(Mutex::new(jobs));
        let width = outputs.width;
        for _ in 0..workers {
            let jobs = jobs.clone();
            scope.spawn(move || work(&jobs, tokenizer, width));
        }
        Self {
            jobs: sender,
            in_progress: VecDeque::new(),
            in_progress_limit: 2 * workers,
            job: EncodeJob::default(),
            outputs,
        }
    }

    /// Adds a piece of text, which is encoded separately.
    pub(super) fn text(&mut self, text: &str, split: Split) -> Result<(), PrepareError> {
        self.job.text.push_str(text);
        self.job.items.push(EncodeItem::Text { end: self.job.text.len(), split });
        self.send_if_full()
    }

    /// Adds tokens.
    pub(super) fn ids(&mut self, ids: &[u32], split: Split) -> Result<(), PrepareError> {
        self.job.ids.extend_from_slice(ids);
        self.job.items.push(EncodeItem::Ids { end: self.job.ids.len(), split });
        self.send_if_full()
    }

    /// How many tokens are written.
    pub(super) fn tokens(&self) -> u64 {
        self.outputs.tokens()
    }

    /// Writes what is left.
    pub(super) fn finish(mut self) -> Result<(), PrepareError> {
        self.drain()
    }

    /// Syncs everything so far to the disk, and returns the bytes of tokens in both splits.
    pub(super) fn sync(&mut self) -> Result<(u64, u64), PrepareError> {
        self.drain()?;
        self.outputs.train.sync()?;
        self.outputs.val.sync()?;
        Ok((self.outputs.train.bytes(), self.outputs.val.bytes()))
    }

    fn drain(&mut self) -> Result<(), PrepareError> {
        self.send()?;
        while let Some(answer) = self.in_progress.pop_front() {
            self.write(&answer)?;
        }
        Ok(())
    }

    fn send_if_full(&mut self) -> Result<(), PrepareError> {
        let bytes = self.job.text.len() + 4 * self.job.ids.len();
        let is_full = bytes >= PIECE_BYTES || self.job.items.len() >= JOB_ITEMS;
        if is_full { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<(), PrepareError> {
        if self.in_progress.len() == self.in_progress_limit
            && let Some(oldest) = self.in_progress.pop_front()
        {
            self.write(&oldest)?;
        }
        let (sender, answer) = channel();
        self.jobs.send((std::mem::take(&mut self.job), sender)).expect("workers wait for jobs");
        self.in_progress.push_back(answer);
        Ok(())
    }

    fn write(&mut self, answer: &Receiver<EncodeResult>) -> Result<(), PrepareError> {
        let answer = answer.recv().expect("a worker answers every job");
        let encoded = answer.map_err(|source| match source {
            // The vocabulary was made from this text by the first pass.
            TokenizerError::UnknownCharacter { .. } => PrepareError::Changed,
            source => PrepareError::Encode { source },
        })?;
        self.outputs.write(&encoded)
    }
}

/// Encodes jobs until there are none.
fn work(jobs: &Mutex<Jobs>, tokenizer: &Tokenizer, width: TokenWidth) {
    let mut encoder = tokenizer.encoder();
    loop {
        let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((job, answer)) = next else { return };
        let _ = answer.send(encode(&job, &mut encoder, width)); // fails if the encoder has ended with an error
    }
}

fn encode(job: &EncodeJob, encoder: &mut DocumentEncoder<'_>, width: TokenWidth) -> EncodeResult {
    let mut encoded = EncodedTokens::default();
    let (mut start, mut start_id) = (0, 0);
    for item in &job.items {
        match *item {
            EncodeItem::Text { end, split } => {
                let bytes = encoded.of(split);
                match encoder.encode(&job.text[start..end])? {
                    // In files, numbers are little-endian.
                    TokenIds::Narrow(ids)
                        if width == TokenWidth::Bits16 && cfg!(target_endian = "little") =>
                    {
                        bytes.extend_from_slice(bytemuck::cast_slice(ids));
                    }
                    TokenIds::Narrow(ids) => {
                        for &id in ids {
                            width.push(id.into(), bytes);
                        }
                    }
                    TokenIds::Wide(ids)
                        if width == TokenWidth::Bits32 && cfg!(target_endian = "little") =>
                    {
                        bytes.extend_from_slice(bytemuck::cast_slice(ids));
                    }
                    TokenIds::Wide(ids) => ids.iter().for_each(|&id| width.push(id, bytes)),
                }
                start = end;
            }
            EncodeItem::Ids { end, split } => {
                let bytes = encoded.of(split);
                job.ids[start_id..end].iter().for_each(|&id| width.push(id, bytes));
                start_id = end;
            }
        }
    }
    Ok(encoded)
}

#[cfg(test)]
mod tests {
    use std::{fs, thread};

    use fitgpt_data::tokenizer::END_OF_TEXT;

    use super::*;
    use crate::draft::{Draft, LockedFolder};

    /// The tokens of both files after `feed`.
    fn encoded(
        tokenizer: &Tokenizer,
        workers: usize,
        feed: impl FnOnce(&mut TokenWriter<'_>) -> Result<(), PrepareError>,
    ) -> Result<[Vec<u32>; 2], PrepareError> {
        let dir = tempfile::tempdir().unwrap();
        let folder = LockedFolder::make(dir.path()).unwrap();
        let create = |name| TokenDraft::Plain(Draft::create(&folder, name).unwrap());
        let width = TokenWidth::Bits16;
        let mut outputs = Outputs { width, train: create("train.bin"), val: create("val.bin") };
        thread::scope(|scope| {
            let mut encoder = TokenWriter::start(scope, tokenizer, workers, &mut outputs);
            feed(&mut encoder)?;
            encoder.finish()
        })?;
        let read = |draft: &mut TokenDraft| {
            let TokenDraft::Plain(draft) = draft else { panic!("shards were not asked for") };
            draft.flush().unwrap();
            let bytes = fs::read(draft.path()).unwrap();
            bytes.chunks(2).map(|pair| u32::from(u16::from_le_bytes([pair[0], pair[1]]))).collect()
        };
        Ok([read(&mut outputs.train), read(&mut outputs.val)])
    }

    #[test]
    fn tokens_come_out_in_the_order_of_the_text_with_any_number_of_workers() {
        let document = |i: u64| format!("Document {i} has {} words.", "many ".repeat(i as usize));
        let split = |i: u64| if i.is_multiple_of(7) { Split::Val } else { Split::Train };
        let mut expected = [Vec::new(), Vec::new()];
        for i in 0..1_000 {
            let tokens = &mut expected[usize::from(split(i) == Split::Val)];
            tokens.extend(Tokenizer::Gpt2.encode_document(&document(i)).unwrap());
            tokens.push(END_OF_TEXT);
        }
        for workers in [1, 2, 5] {
            let got = encoded(&Tokenizer::Gpt2, workers, |encoder| {
                for i in 0..1_000 {
                    encoder.text(&document(i), split(i))?;
                    encoder.ids(&[END_OF_TEXT], split(i))?;
                }
                Ok(())
            });
            assert!(got.unwrap() == expected, "{workers} workers");
        }
    }

    #[test]
    fn no_more_than_two_jobs_per_worker_are_in_progress() {
        let text = "word ".repeat(PIECE_BYTES / 5 + 1);
        encoded(&Tokenizer::Gpt2, 2, |encoder| {
            for _ in 0..10 {
                encoder.text(&text, Split::Train)?;
                assert!(encoder.in_progress.len() <= 4 && encoder.job.text.is_empty());
            }
            assert!(encoder.tokens() > 0, "finished jobs are written at once");
            for _ in 0..10 * JOB_ITEMS {
                encoder.ids(&[END_OF_TEXT], Split::Val)?;
                assert!(encoder.job.items.len() < JOB_ITEMS);
            }
            Ok(())
        })
        .unwrap();
    }

    #[test]
    fn a_new_character_means_that_the_input_changed() {
        let tokenizer = Tokenizer::from_text("ab");
        let error = encoded(&tokenizer, 1, |encoder| encoder.text("abc", Split::Val));
        assert!(matches!(error, Err(PrepareError::Changed)), "{error:?}");
    }

    #[test]
    fn the_last_symbol_of_the_largest_vocabulary_fits() {
        let symbols = (0..).filter_map(char::from_u32).take(1 << 16).map(String::from);
        let tokenizer = Tokenizer::from_symbols(symbols.collect());
        let last = (0..).filter_map(char::from_u32).nth((1 << 16) - 1).unwrap();
        let [train, _] =
            encoded(&tokenizer, 1, |encoder| encoder.text(&format!("\0{last}"), Split::Train))
                .unwrap();
        assert_eq!(train, [0, 65_535]);
    }
}
