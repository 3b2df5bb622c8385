//! The English translation of an error is its `Display`, so that the two do not drift apart.

use std::{error::Error, io, path::PathBuf};

use fitgpt_checkpoint::{CheckpointError, events::EventError};
use fitgpt_config::{
    ConfigError, Construct, DeviceChoice, ExpectedToken, FamilyRule, FoundToken, GivenArguments,
    LaneSplit, Location, MachineFacts, Precision, Reason, ValueKind, ValueNoun, ValueRange,
    Written,
};
use fitgpt_data::{DataError, MetaError, Split, tokenizer::TokenizerError};
use fitgpt_exec::{BackendError, DeviceFault, MemoryRefused, arena::ArenaRefused};
use fitgpt_files::{
    attempt::Attempt,
    formats::parquet::ParquetError,
    pytorch::{OptimizerFault, SavedError, TensorFault, ZipFault},
};
use fitgpt_fit::device;
use fitgpt_model::family::{FamilyError, Requirement};
use fitgpt_pickle::PickleError;
use fitgpt_prepare::{DiskNeed, HeldOut, JsonKind, PrepareError, hub::HubError};
use fitgpt_program::{memory::PlanError, units::Bytes};

use super::{Translate, config};
use crate::{
    export::{ExportError, TokenizerGap},
    output::OutputError,
    patch::{File, PatchError, SyntaxFault},
    run::{device::Unavailable, error::RunError, setup::SetupError},
};

fn same(error: &(impl Translate + Error)) {
    assert_eq!(error.translate(), error.to_string());
}

fn path() -> PathBuf {
    PathBuf::from("data/a.bin")
}

fn refused() -> io::Error {
    io::ErrorKind::PermissionDenied.into()
}

fn json() -> serde_json::Error {
    serde_json::from_str::<u32>("x").unwrap_err()
}

#[test]
fn configs() {
    let place = Location::command_line;
    let python = |reason| ConfigError::Python { place: place(), reason };
    let expected = |expected, found| python(Reason::Expected { expected, found });
    let mut errors = vec![
        python(Reason::Indented),
        python(Reason::BadNumber { literal: "012".into() }),
        python(Reason::UnterminatedString),
        python(Reason::BadEscape),
        python(Reason::TextTooLong { limit: 9 }),
        python(Reason::TooDeep { limit: 9 }),
        python(Reason::UnknownName { name: "x".into() }),
        python(Reason::DivisionByZero),
        python(Reason::Overflow),
        expected(ExpectedToken::Value, FoundToken::EndOfFile),
        expected(ExpectedToken::Value, FoundToken::EndOfLine),
        ConfigError::UnknownKey { key: "x".into(), nearest: None, place: place() },
        ConfigError::UnknownKey { key: "x".into(), nearest: Some("y"), place: place() },
        ConfigError::NotAChoice {
            key: "k",
            value: "v".into(),
            choices: &["a", "b", "c"],
            place: place(),
        },
        ConfigError::NotASize { key: "k", value: "v".into(), place: place() },
        ConfigError::HeadsDoNotDivide {
            n_embd: 5,
            n_head: 2,
            heads: vec![1, 5],
            widths: vec![4, 6],
            place: place(),
        },
        ConfigError::NotOfFamily { key: "gelu", family: "llama", place: place() },
        ConfigError::NotOfOptimizer { key: "muon_eps", optimizer: "adamw", place: place() },
        ConfigError::BreaksFamilyRule {
            rule: FamilyRule::KeyValueHeads { n_head: 9, n_kv_head: 2 },
            place: place(),
        },
        ConfigError::BreaksFamilyRule { rule: FamilyRule::OddHead { head_dim: 7 }, place: place() },
        ConfigError::EvalBlockTooLong { eval_block_size: 2, block_size: 1, place: place() },
        ConfigError::LanesDoNotDivide {
            lanes: 4,
            accumulation: 6,
            works: LaneSplit::Batch { batch_size: 3, accumulation: 8 },
            place: place(),
        },
        ConfigError::TooLarge { product: vec!["a", "b"], place: place() },
    ];
    let wanted = [
        ExpectedToken::Expression,
        ExpectedToken::OneExpression,
        ExpectedToken::EndOfLine,
        ExpectedToken::EndAfterBackslash,
        ExpectedToken::LineAfterBackslash,
        ExpectedToken::NameBeforeEquals,
        ExpectedToken::NameAndOperator,
        ExpectedToken::Operator,
        ExpectedToken::Name,
        ExpectedToken::NameAfterDot,
        ExpectedToken::Text("else"),
    ];
    errors.extend(wanted.map(|wanted| expected(wanted, FoundToken::Text("x".into()))));
    let constructs = [
        Construct::Statement("for".into()),
        Construct::Annotation,
        Construct::TupleAssignment,
        Construct::Unassigned,
        Construct::Tuple,
        Construct::Attribute,
        Construct::AttributePath("a.b".into()),
        Construct::Index,
        Construct::Call,
        Construct::CallOf("f".into()),
        Construct::Operator("<<".into()),
        Construct::Comprehension,
        Construct::Lambda,
        Construct::List,
        Construct::DictOrSet,
        Construct::Sign("~"),
        Construct::ArgumentByName,
        Construct::Bytes,
        Construct::StringPrefix,
        Construct::FString,
        Construct::CharacterByName,
        Construct::Machine,
    ];
    errors.extend(constructs.map(|what| python(Reason::Unsupported { what })));
    for noun in [ValueNoun::None, ValueNoun::Bool, ValueNoun::Int, ValueNoun::Float, ValueNoun::Str]
    {
        errors.push(python(Reason::Operands { operator: "+", left: noun, right: noun }));
        errors.push(python(Reason::Argument { function: "int", given: GivenArguments::One(noun) }));
    }
    for given in [GivenArguments::Nothing, GivenArguments::Several(2), GivenArguments::NegativeBase]
    {
        errors.push(python(Reason::Argument { function: "int", given }));
    }
    let kinds = [
        ValueKind::Int,
        ValueKind::Float,
        ValueKind::Bool,
        ValueKind::Text,
        ValueKind::ChoiceOrNone(&[]),
        ValueKind::BoolOr(&[]),
        ValueKind::Size,
    ];
    let of_kind =
        |expected| ConfigError::WrongKind { key: "k", value: "v".into(), expected, place: place() };
    errors.extend(kinds.map(of_kind));
    let ranges = [
        ValueRange::Any,
        ValueRange::Whole { min: 1, max: 2 },
        ValueRange::NotNegative,
        ValueRange::BelowOne,
        ValueRange::Share,
        ValueRange::NotEmpty,
    ];
    let outside =
        |range| ConfigError::OutOfRange { key: "k", value: "v".into(), range, place: place() };
    errors.extend(ranges.map(outside));
    for error in errors {
        assert_eq!(error.translate(), error.message());
        assert_eq!(config::place(error.place()), "command line");
    }
    let error =
        Written::new().read_python("c.py", "n_layer = [1]", &MachineFacts::default()).unwrap_err();
    assert_eq!(config::place(error.place()), "c.py:1:11");
}

#[test]
fn datasets_and_tokenizers() {
    let (path, block_size) = (path(), 8);
    let looked_at = vec!["data/x".into(), "x".into(), "x".into()];
    same(&DataError::NoDataset { dataset: "x".into(), looked_at });
    same(&DataError::Missing { path: path.clone() });
    same(&DataError::NotAFile { path: path.clone() });
    same(&DataError::Io { action: Attempt::Open, path: path.clone(), source: refused() });
    same(&DataError::Empty { path: path.clone() });
    same(&DataError::OddLength { path: path.clone(), bytes: 3, width: 2 });
    same(&DataError::WrongCount { path: path.clone(), announced: -1, held: 2 });
    same(&DataError::HeaderCut { path: path.clone(), bytes: 3 });
    same(&DataError::ShardVersion { path: path.clone(), magic: 1, version: 2 });
    same(&DataError::TooShort { path: path.clone(), tokens: 3, block_size });
    same(&DataError::OutsideVocabulary {
        path: path.clone(),
        position: 1,
        token: 2,
        vocab_size: 3,
    });
    same(&DataError::Shrank { path: path.clone(), tokens: 9, end: 7 });
    same(&DataError::MetaTooLarge { path: path.clone(), bytes: 9, limit: 7 });
    for source in [
        PickleError::Code { opcode: "GLOBAL", offset: 3 },
        PickleError::Global { global: "os.system".into(), offset: 3 },
        PickleError::UnknownOpcode { byte: 7, offset: 3 },
        PickleError::CutOff { length: 3 },
        PickleError::NoOperand { offset: 3 },
        PickleError::BadValue { offset: 3 },
        PickleError::TooLarge { offset: 3 },
        PickleError::Trailing { extra: 3 },
    ] {
        same(&DataError::Pickle { path: path.clone(), source });
    }
    for source in [
        MetaError::NotADict { found: "list" },
        MetaError::NoKey { key: "stoi" },
        MetaError::WrongType { place: "itos", expected: "dict", found: "list" },
        MetaError::VocabSize { vocab_size: 0, limit: 65_536 },
        MetaError::IdOutside { place: "itos", id: 9, vocab_size: 3 },
        MetaError::Disagree { id: 9, symbol: "\\n".into() },
    ] {
        same(&DataError::Meta { path: path.clone(), source });
    }
    same(&TokenizerError::UnknownCharacter { character: '\n', position: 3 });
    same(&TokenizerError::NotAnId { word: "x".into() });
    same(&TokenizerError::NotSplit { reason: "x".into() });
    same(&TokenizerError::NoToken { path: path.clone(), token: "<s>".into() });
    same(&TokenizerError::File { path: path.clone(), reason: "x".into() });
}

#[test]
fn checkpoints() {
    let (path, tensor) = (path(), "wte.weight".to_owned());
    same(&CheckpointError::Io { action: Attempt::Sync, path: path.clone(), source: refused() });
    same(&CheckpointError::InUse { dir: path.clone(), pid: None });
    same(&CheckpointError::InUse { dir: path.clone(), pid: Some(3) });
    same(&CheckpointError::Missing { path: path.clone() });
    for source in [
        SavedError::Io(refused()),
        SavedError::NotAnArchive,
        SavedError::OldFormat,
        SavedError::Zip { fault: ZipFault::Signature, offset: 3 },
        SavedError::Zip { fault: ZipFault::Bounds, offset: 3 },
        SavedError::Zip { fault: ZipFault::Compressed, offset: 3 },
        SavedError::Zip { fault: ZipFault::Name, offset: 3 },
        SavedError::Zip { fault: ZipFault::TooMany, offset: 3 },
        SavedError::NoEntry { entry: "ckpt/data/0".into() },
        SavedError::BigEndian,
        SavedError::Pickle(PickleError::CutOff { length: 3 }),
        SavedError::Tensor { tensor: tensor.clone(), fault: TensorFault::Form },
        SavedError::Tensor { tensor: tensor.clone(), fault: TensorFault::Type("x".into()) },
        SavedError::Tensor { tensor: tensor.clone(), fault: TensorFault::Bounds },
        SavedError::Tensor { tensor: tensor.clone(), fault: TensorFault::Strides },
        SavedError::NoKey { key: "model".into() },
        SavedError::WrongType { key: "model".into(), expected: "a dict" },
        SavedError::Optimizer(OptimizerFault::Groups { expected: [1, 2], found: vec![3] }),
        SavedError::Optimizer(OptimizerFault::State { name: "x".into() }),
        SavedError::Optimizer(OptimizerFault::Steps),
    ] {
        same(&CheckpointError::Saved { path: path.clone(), source });
    }
    same(&CheckpointError::Header { path: path.clone(), source: json() });
    same(&CheckpointError::HeaderLength { path: path.clone(), found_bytes: 1, most_bytes: 2 });
    same(&CheckpointError::Length { path: path.clone(), expected_bytes: 1, found_bytes: 2 });
    same(&CheckpointError::Damaged { path: path.clone(), expected: 1, found: 2 });
    same(&CheckpointError::NoChecksum { path: path.clone() });
    let (one, two) = (vec![1, 2], vec![2, 3]);
    same(&CheckpointError::MissingTensor {
        path: path.clone(),
        tensor: tensor.clone(),
        expected: one.clone(),
    });
    same(&CheckpointError::UnknownTensor {
        path: path.clone(),
        tensor: tensor.clone(),
        found: one.clone(),
    });
    same(&CheckpointError::Shape {
        path: path.clone(),
        tensor: tensor.clone(),
        expected: one,
        found: two,
    });
    same(&CheckpointError::DType {
        path: path.clone(),
        tensor: tensor.clone(),
        found: "I8".into(),
    });
    same(&CheckpointError::BiasNotZero { path: path.clone(), tensor: tensor.clone(), found: 0.5 });
    same(&CheckpointError::Mixed {
        first: path.clone(),
        first_id: Some("a".into()),
        second: path.clone(),
        second_id: None,
    });
    same(&CheckpointError::Json { path: path.clone(), source: json() });
    same(&CheckpointError::StateDType {
        path: path.clone(),
        tensor: tensor.clone(),
        expected: "U8".into(),
        found: "F32".into(),
    });
    same(&CheckpointError::ShardName { path: path.clone(), name: "../x".into() });
    let (index, stored) = (path.clone(), tensor.clone());
    same(&CheckpointError::NotInShard { path: path.clone(), tensor: stored.clone(), index });
    same(&CheckpointError::StoredTwice { path: path.clone(), tensor: stored });
    let family = |source| CheckpointError::Family { path: path.clone(), source };
    same(&family(FamilyError::NotAnObject));
    same(&family(FamilyError::ModelType { found: "bert".into() }));
    same(&family(FamilyError::Missing { key: "k" }));
    for expected in [
        Requirement::Is("true"),
        Requirement::Either("1", "2"),
        Requirement::Within("1", "2"),
        Requirement::UpTo(2),
        Requirement::Divides("n_embd"),
        Requirement::Even,
        Requirement::Positive,
        Requirement::RopeType,
        Requirement::AtLeastBlock(3),
        Requirement::Kind("a string"),
    ] {
        same(&family(FamilyError::UnsupportedValue { key: "k", expected, found: "3".into() }));
    }
    same(&CheckpointError::Document { source: json() });
    let (place, written, back) = ("/a".into(), "1".into(), "2".into());
    same(&CheckpointError::DocumentChanged { place, written, back });
    let source = BackendError::Refused(ArenaRefused::BySystem { asked: Bytes::new(1 << 20) });
    same(&CheckpointError::Store { tensor, source: Box::new(source) });
}

#[test]
fn runs_and_devices() {
    let path = path();
    same(&EventError::Io { action: Attempt::Truncate, path: path.clone(), source: refused() });
    same(&EventError::Json { path: path.clone(), source: json() });
    let choice = DeviceChoice::Gpu(Some(1));
    same(&SetupError::Device(Unavailable::NotInThisBuild { device: choice }));
    same(&Unavailable::NoSuchDevice { device: choice, found: Vec::new(), software: None });
    let name = || "llvmpipe".to_owned();
    same(&Unavailable::NoSuchDevice {
        device: choice,
        found: vec![name(), name()],
        software: Some(name()),
    });
    same(&Unavailable::NoType { device: name(), dtype: Precision::Bfloat16 });
    same(&Unavailable::Unsuitable { device: name(), why: "a head is too wide".into() });
    same(&Unavailable::UnknownMemory { device: name() });
    let fault = DeviceFault { device: name(), message: "lost".into() };
    same(&Unavailable::Backend(fault.into()));
    let (need, have) = (Bytes::new(9 << 20), Bytes::new(1 << 20));
    for free in [None, Some(have)] {
        same(&BackendError::Memory(MemoryRefused { device: name(), asked: need, free }));
    }
    same(&SetupError::Plan(PlanError::TooLargeForOnePiece { tensor: "wte".into(), need, have }));
    same(&device::find("RTX 9999").unwrap_err());
    same(&device::find("Tesla P100").unwrap().rates().unwrap_err());
    same(&device::DeviceError::Ambiguous { name: "x".into(), candidates: vec!["a", "b"] });
    same(&BackendError::Threads { asked: 3, kind: io::ErrorKind::WouldBlock });
    same(&RunError::Backend(BackendError::Refused(ArenaRefused::BySystem { asked: need })));
    same(&BackendError::Refused(ArenaRefused::Taken { asked: need, left: need }));
    same(&RunError::Diverged { step: 3, loss: f64::NAN, grad_norm: f64::NAN, saved: Some(2) });
    same(&RunError::Diverged { step: 3, loss: f64::INFINITY, grad_norm: 1e30, saved: None });
    let lost = || CheckpointError::FolderLost { path: path.clone() };
    same(&lost());
    same(&EventError::Folder(lost()));
    let saved_in = PathBuf::from("out-1");
    same(&RunError::FolderLost { path: path.clone(), step: 7, saved_in });
    let source = Box::new(RunError::from(lost()));
    same(&RunError::FolderLostUnsaved { path: path.clone(), source });
    same(&RunError::Folder { path, source: refused() });
}

#[test]
fn every_attempt() {
    for action in [
        Attempt::Open,
        Attempt::Read,
        Attempt::Write,
        Attempt::Create,
        Attempt::List,
        Attempt::Remove,
        Attempt::Rename,
        Attempt::Sync,
        Attempt::Lock,
        Attempt::Truncate,
        Attempt::BackUp,
    ] {
        same(&DataError::Io { action, path: path(), source: refused() });
    }
}

#[test]
fn preparing() {
    let (path, line, field) = (path(), 3, "text".to_owned());
    let folder = path.clone();
    for kind in [TokenizerGap::Characters, TokenizerGap::Json, TokenizerGap::TooLarge] {
        same(&ExportError::NoTokenizer { folder: folder.clone(), kind });
    }
    same(&ExportError::RopeScaling);
    same(&ExportError::Family { family: fitgpt_config::Family::Llama });
    same(&ExportError::Optimizer { name: "muon" });
    for error in [
        OutputError::Input { path: folder.clone() },
        OutputError::NotAFile { path: folder.clone() },
        OutputError::NotAFolder { path: folder.clone() },
        OutputError::OfRun { path: folder.clone() },
        OutputError::Foreign { path: folder.clone() },
        OutputError::Exists { path: folder.clone() },
    ] {
        same(&error);
    }
    same(&PrepareError::NoInput);
    same(&PrepareError::StdinTwice);
    same(&PrepareError::NoTexts { folder: path.clone() });
    same(&PrepareError::NoMatch { pattern: path.clone() });
    same(&PrepareError::RowNotUtf8 { path: path.clone(), row: 3 });
    same(&PrepareError::Shard { source: DataError::Empty { path: path.clone() } });
    same(&PrepareError::ShardInOther { path: path.clone(), flag: "--chars" });
    same(&PrepareError::NoEndOfText { path: path.clone() });
    let column = || "text".to_owned();
    for source in [
        ParquetError::Io { offset: 3, source: refused() },
        ParquetError::NotParquet,
        ParquetError::Encrypted,
        ParquetError::Damaged { offset: 3 },
        ParquetError::NoColumn { column: column(), columns: vec!["a".into(), "b".into()] },
        ParquetError::NotText { column: column() },
        ParquetError::NotSupported { column: column(), what: "encoding", code: 9 },
        ParquetError::TooLarge { offset: 3, bytes: 9, limit: 5 },
    ] {
        same(&PrepareError::Parquet { path: path.clone(), source });
    }
    same(&PrepareError::ValFraction { val_fraction: 1.5 });
    same(&PrepareError::Exists { path: path.clone() });
    same(&PrepareError::Io { action: Attempt::Remove, path: path.clone(), source: refused() });
    same(&PrepareError::DiskFull { path: path.clone(), written_bytes: 3 });
    for usual_bytes in [5, 9] {
        let need = DiskNeed { usual_bytes, most_bytes: 9 };
        same(&PrepareError::TooLittleDisk { need, free_bytes: 3 });
    }
    same(&PrepareError::NotUtf8 { path: path.clone(), offset: 3 });
    same(&PrepareError::NotJson { path: path.clone(), line, column: 2, reason: "x".into() });
    for fields in [vec![], vec!["a".into(), "b".into()]] {
        same(&PrepareError::NoField { path: path.clone(), line, field: field.clone(), fields });
    }
    for found in
        [JsonKind::Boolean, JsonKind::Number, JsonKind::Null, JsonKind::Array, JsonKind::Object]
    {
        same(&PrepareError::NotText { path: path.clone(), line, field: field.clone(), found });
    }
    same(&PrepareError::LineTooLong { path, line, limit_bytes: 9 });
    same(&PrepareError::TooManySymbols { symbols: 9, limit: 3 });
    same(&PrepareError::Changed);
    same(&PrepareError::Encode { source: TokenizerError::NotAnId { word: "x".into() } });
    same(&PrepareError::Empty);
    let share = HeldOut { val_fraction: 0.5, documents: 2 };
    for (documents, computed) in [(1, None), (2, None), (3, Some(share))] {
        let split = Split::Val;
        same(&PrepareError::EmptySplit {
            split,
            documents,
            characters: 9,
            val_fraction: 0.1,
            computed,
        });
    }
    same(&PrepareError::Stopped);
}

#[test]
fn patching() {
    for what in [SyntaxFault::OpenBracket, SyntaxFault::StrayBracket, SyntaxFault::OpenString] {
        same(&PatchError::NotPython { file: File::Train, line: 3, what });
    }
    same(&PatchError::NoSuchPatch { name: "x".into() });
    same(&PatchError::File { doing: Attempt::BackUp, path: path(), source: refused() });
}

#[test]
fn downloads() {
    let text = || "x".to_owned();
    let errors = [
        HubError::NotBuilt,
        HubError::NotInCache { repo: text(), path: None },
        HubError::NotInCache { repo: text(), path: Some(text()) },
        HubError::Unreachable { url: text(), reason: text() },
        HubError::Unauthorized { repo: text(), has_token: true },
        HubError::Unauthorized { repo: text(), has_token: false },
        HubError::Forbidden { repo: text(), reason: text() },
        HubError::NotFound { repo: text(), what: text() },
        HubError::TooManyRequests { attempts: 5 },
        HubError::Status { url: text(), status: 500 },
        HubError::BadResponse { url: text(), reason: text() },
        HubError::BrokenOff { path: text(), bytes: 1, total_bytes: 2, attempts: 3 },
        HubError::WrongHash { path: text(), found: text(), expected: text() },
        HubError::NoFiles { repo: text(), pattern: text(), revision: text() },
        HubError::NoSample { dataset: "x", sample: text(), samples: vec!["a", "b"] },
        HubError::TooLittleDisk { need_bytes: 2, free_bytes: 1, folder: path() },
        HubError::Io { action: Attempt::Read, path: path(), source: refused() },
        HubError::Stopped,
    ];
    errors.iter().for_each(same);
}
