//! A preparation from start to end: find the input, copy what can be read only once, scan, encode,
//! publish.

use std::{io::Read, num::NonZeroUsize, path::Path, thread, time::Instant};

use fitgpt_data::{
    Split,
    publish::{self, is_shard_name},
    tokenizer::{
        TOKENIZER_FILE,
        huggingface::{GENERATION_CONFIG_FILE, TOKENIZER_CONFIG_FILE},
    },
};
use fitgpt_files::disk::Disk;

use super::{
    DiskNeed, EndOfText, Options, OutputFormat, PrepareError, PrepareSummary, Progress, Vocabulary,
    draft::{Draft, LockedFolder},
    encode::{Outputs, WORKERS_LIMIT},
    error::{file_name, wide_file_name},
    input::TextInput,
    journal::{EncodedTotals, EncodingEntry, ProgressRecorder, journal_key},
    memory,
    passes::Passes,
    shards::{Shards, TokenDraft, TokenWidth},
    vocabulary::{DatasetVocabulary, JsonFile, META},
    walk::{LastLine, Walk},
};

/// Every file that a dataset may have, the tokens for training first.
const NAMES: [&str; 8] = [
    file_name(Split::Train),
    wide_file_name(Split::Train),
    file_name(Split::Val),
    wide_file_name(Split::Val),
    META,
    TOKENIZER_FILE,
    TOKENIZER_CONFIG_FILE,
    GENERATION_CONFIG_FILE,
];

/// [`super::prepare`] with any standard input.
pub(super) fn prepare_from(
    options: &Options,
    stdin: &mut dyn Read,
    progress: &mut dyn FnMut(Progress),
    stop: &dyn Fn() -> bool,
) -> Result<PrepareSummary, PrepareError> {
    let start = Instant::now();
    let mut input = TextInput::find(options)?;
    check_val_fraction(options.val_fraction)?;
    let mut folder = new_dataset(&options.folder, options.overwrite)?;
    input.refuse_other_shards()?;
    let json = JsonFile::of(options)?;
    let kept = input.keep(&folder, stdin, progress, stop)?; // removed at the end

    let key = match &kept[..] {
        [] => journal_key(options, &input.sources, input.val_fraction())?,
        _ => None, // copies do not survive this process
    };
    let mut notes = ProgressRecorder::resume(&mut folder, key, options.note_every)?;
    let walk = walk(options, &input, stop);
    let mut passes = Passes { walk, total_bytes: input.bytes(), stdin, progress };
    let scan =
        if input.is_scanned() { Some(passes.scan(options.vocabulary, &mut notes)?) } else { None };
    let characters = scan.as_ref().map(|scan| scan.characters);

    let symbols = scan.as_ref().map(|scan| &scan.symbols);
    let vocabulary = DatasetVocabulary::new(options, symbols, json, input.end_of_text())?;
    let kept_bytes = kept.iter().map(Draft::bytes).sum(); // no longer free
    let free_bytes = options.disk_free_bytes.map(|free| free.saturating_sub(kept_bytes));
    check_disk(vocabulary.disk_need(characters, input.plain_bytes()), free_bytes)?;

    let mut rule = input.split_rule(characters)?;
    let mut outputs = outputs(options.output, vocabulary.width(), notes.folder, notes.encoding())?;
    let resumed_tokens = outputs.tokens();
    let workers = workers(options);
    let written = passes.encode(&vocabulary, workers, &mut rule, &mut outputs, &mut notes);
    let written = written.map_err(|error| notes.ended_by(error))?;
    written.check(&rule, characters, input.val_fraction())?;

    let summary = summary(options, input, &vocabulary, workers, &written, &outputs, resumed_tokens);
    drop(kept); // only the dataset is published
    match publish(notes.folder, outputs, &vocabulary.into_tables(), stop) {
        Ok(()) => Ok(PrepareSummary { seconds: start.elapsed().as_secs_f64(), ..summary }),
        Err(error) => Err(notes.ended_by(error)),
    }
}

fn check_val_fraction(val_fraction: Option<f64>) -> Result<(), PrepareError> {
    match val_fraction {
        Some(val_fraction) if !(val_fraction > 0.0 && val_fraction < 1.0) => {
            Err(PrepareError::ValFraction { val_fraction })
        }
        _ => Ok(()),
    }
}

/// How the sources are read.
fn walk<'a>(
    options: &'a Options,
    input: &'a TextInput<'_>,
    stop: &'a dyn Fn() -> bool,
) -> Walk<'a> {
    let is_line_ended = options.vocabulary == Vocabulary::Chars
        && !input.is_one_text
        && input.end_of_text() != EndOfText::None;
    Walk {
        sources: &input.sources,
        field: &options.field,
        invalid: options.invalid,
        last_line: if is_line_ended { LastLine::Ended } else { LastLine::AsItIs },
        stop,
    }
}

/// How many threads encode.
fn workers(options: &Options) -> usize {
    match options.threads {
        Some(threads) => threads.get(),
        None => thread::available_parallelism().map_or(1, NonZeroUsize::get),
    }
}

/// Locks the folder of a dataset, if it has none or one that may be replaced.
fn new_dataset(path: &Path, overwrite: bool) -> Result<LockedFolder, PrepareError> {
    // Checked before anything is written, and again under the folder's lock. A dataset whose
    // publication was interrupted is completed first.
    if !publish::is_pending(&Disk::real(), path)? {
        check_free(path, overwrite)?;
    }
    let folder = LockedFolder::make(path)?;
    check_free(path, overwrite)?;
    Ok(folder)
}

fn check_free(folder: &Path, overwrite: bool) -> Result<(), PrepareError> {
    if overwrite {
        return Ok(());
    }
    let shards = Disk::real().list(folder)?.into_iter().filter_map(|name| name.into_string().ok());
    let shards = shards.filter(|name| is_shard_name(name));
    for name in NAMES.map(str::to_owned).into_iter().chain(shards) {
        let path = folder.join(name);
        if path.exists() {
            return Err(PrepareError::Exists { path });
        }
    }
    Ok(())
}

/// Refuses a disk with less free space than usually needed.
fn check_disk(need: Option<DiskNeed>, free_bytes: Option<u64>) -> Result<(), PrepareError> {
    match (need, free_bytes) {
        (Some(need), Some(free_bytes)) if free_bytes < need.usual_bytes => {
            Err(PrepareError::TooLittleDisk { need, free_bytes })
        }
        _ => Ok(()),
    }
}

/// What was written, before it is published.
fn summary(
    options: &Options,
    input: TextInput<'_>,
    vocabulary: &DatasetVocabulary,
    workers: usize,
    written: &EncodedTotals,
    outputs: &Outputs,
    resumed_tokens: u64,
) -> PrepareSummary {
    let width = vocabulary.width();
    let [train_tokens, val_tokens] =
        [&outputs.train, &outputs.val].map(|draft| draft.bytes() / width.bytes());
    let path = |name: &str| options.folder.join(name);
    PrepareSummary {
        vocabulary: options.vocabulary,
        vocab_size: vocabulary.size,
        documents: written.tally.documents,
        val_documents: (!input.is_one_text).then_some(written.val_documents),
        val_fraction: input.val_fraction(),
        input_bytes: written.tally.bytes,
        text_bytes: written.text_bytes,
        characters: written.characters(),
        train_tokens,
        val_tokens,
        forced_cuts: match options.vocabulary {
            Vocabulary::Chars => 0, // a cut between characters never changes tokens
            Vocabulary::Gpt2 => written.tally.forced_cuts,
            Vocabulary::Json => written.tally.cuts,
        },
        end_of_text: vocabulary.mark().cloned(),
        memory_limit_bytes: memory::limit_bytes(
            options.vocabulary,
            vocabulary.json_bytes(),
            workers.min(WORKERS_LIMIT),
            written.tally.held_bytes,
        ),
        skipped: input.skipped,
        resumed_tokens,
        train_shards: match options.output {
            OutputFormat::Bin => None,
            OutputFormat::Shards { tokens } => Some(train_tokens.div_ceil(tokens.get().into())),
        },
        seconds: 0.0,
        train_path: path(&token_name(options.output, width, Split::Train)),
        val_path: path(&token_name(options.output, width, Split::Val)),
        meta_path: vocabulary.has_meta().then(|| path(META)),
    }
}

/// Syncs the files to the disk and publishes them as the dataset.
fn publish(
    folder: &mut LockedFolder,
    outputs: Outputs,
    tables: &[(&str, Vec<u8>)],
    stop: &dyn Fn() -> bool,
) -> Result<(), PrepareError> {
    outputs.train.finish()?;
    outputs.val.finish()?;
    for (name, bytes) in tables {
        let mut draft = folder.drafts().draft(name, 0)?;
        draft.write(bytes)?;
        draft.finish()?;
    }
    if stop() {
        return Err(PrepareError::Stopped);
    }
    folder.publish()
}

/// The drafts of both splits, new or as recorded.
fn outputs(
    output: OutputFormat,
    width: TokenWidth,
    folder: &LockedFolder,
    begun: Option<&EncodingEntry>,
) -> Result<Outputs, PrepareError> {
    let bytes = |split| match (begun, split) {
        (None, _) => 0,
        (Some(begun), Split::Train) => begun.train_bytes,
        (Some(begun), Split::Val) => begun.val_bytes,
    };
    let mut names = Vec::new();
    for split in [Split::Train, Split::Val] {
        match output {
            OutputFormat::Bin => names.push(width.file_name(split).to_owned()),
            OutputFormat::Shards { tokens } => {
                let shard_bytes = u64::from(tokens.get()) * width.bytes();
                names.extend(Shards::names(split, bytes(split), shard_bytes));
            }
        }
    }
    if begun.is_some() {
        folder.retain(&names)?;
    }
    let draft = |split| match output {
        OutputFormat::Bin => {
            let draft = folder.drafts().draft(width.file_name(split), bytes(split))?;
            Ok::<_, PrepareError>(TokenDraft::Plain(draft))
        }
        OutputFormat::Shards { tokens } => {
            let (drafts, tokens) = (folder.drafts(), tokens.get().into());
            Ok(TokenDraft::Shards(Shards::new(drafts, split, width, tokens, bytes(split))?))
        }
    };
    Ok(Outputs { width, train: draft(Split::Train)?, val: draft(Split::Val)? })
}

/// The file of a split, or its first shard.
fn token_name(output: OutputFormat, width: TokenWidth, split: Split) -> String {
    match output {
        OutputFormat::Bin => width.file_name(split).to_owned(),
        OutputFormat::Shards { .. } => Shards::names(split, 1, 1).remove(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_with_less_than_the_usual_need_is_refused() {
        let exact = DiskNeed::of_characters(100, 50);
        assert_eq!((exact.usual_bytes, exact.most_bytes), (250, 250));
        let check = |need, free_bytes| check_disk(Some(need), free_bytes);
        assert!(check(exact, Some(250)).is_ok() && check(exact, None).is_ok());
        let error = check(exact, Some(249)).unwrap_err().to_string();
        assert_eq!(error, "the dataset needs 250 bytes, the disk has 249 bytes free");
        let error = check(DiskNeed::of_tokens(1000, 2), Some(499)).unwrap_err().to_string();
        assert_eq!(
            error,
            "the dataset needs about 500 and at most 2000 bytes, the disk has 499 bytes free"
        );
    }
}
