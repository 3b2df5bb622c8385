//! Tests of whole preparations, from files to a dataset that is read back.

mod outputs;
mod runs;
mod sources;

use std::{fs, io};

use fitgpt_data::{
    Dataset, Split,
    tokenizer::{END_OF_TEXT, EndOfTextOrigin, Tokenizer},
};

use super::{run::prepare_from, *};

/// A folder with inputs, and one for a dataset.
struct TestFolders(tempfile::TempDir);

impl TestFolders {
    fn new(files: &[(&str, &[u8])]) -> Self {
        let folders = Self(tempfile::tempdir().unwrap());
        fs::create_dir(folders.0.path().join("in")).unwrap();
        for (name, bytes) in files {
            fs::write(folders.0.path().join("in").join(name), bytes).unwrap();
        }
        folders
    }

    fn folder(&self) -> PathBuf {
        self.0.path().join("out")
    }

    fn options(&self, names: &[&str]) -> Options {
        let input = |name: &&str| match *name {
            "-" => Input::Stdin,
            name => Input::Path(self.0.path().join("in").join(name)),
        };
        let inputs = names.iter().map(input).collect();
        Options { folder: self.folder(), ..Options::new(inputs) }
    }

    fn chars(&self, names: &[&str]) -> Options {
        Options { vocabulary: Vocabulary::Chars, ..self.options(names) }
    }

    /// The tokens of both files, read as a run of training would.
    fn tokens(&self) -> [Vec<u32>; 2] {
        let dataset = self.dataset();
        [Split::Train, Split::Val].map(|split| {
            let tokens = dataset.tokens(split);
            let mut read = vec![0; tokens.len() as usize];
            tokens.read(0, &mut read).unwrap();
            read
        })
    }

    fn texts(&self) -> [String; 2] {
        let tokenizer = self.dataset().tokenizer();
        self.tokens().map(|tokens| tokenizer.decode(&tokens))
    }

    fn dataset(&self) -> Dataset {
        Dataset::open(&self.folder().display().to_string(), self.0.path()).unwrap()
    }

    /// Every name in the folder of the dataset, hidden ones too, except its lock's.
    fn names(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir(self.folder()) else { return Vec::new() };
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let mut names = entries.map(|e| name(e).to_string_lossy().into_owned()).collect::<Vec<_>>();
        names.retain(|name| name != ".lock");
        names.sort_unstable();
        names
    }
}

fn run(options: &Options) -> Result<PrepareSummary, PrepareError> {
    run_with(options, b"")
}

fn run_with(options: &Options, mut stdin: &[u8]) -> Result<PrepareSummary, PrepareError> {
    prepare_from(options, &mut stdin, &mut |_| {}, &|| false)
}

fn gpt2(text: &str) -> Vec<u32> {
    Tokenizer::Gpt2.encode_document(text).unwrap()
}

fn jsonl(n: u64, line: impl Fn(u64) -> String) -> String {
    (0..n).map(line).collect::<Vec<_>>().join("\n")
}

const POEM: &str = "Twas brillig, and the slithy toves\nDid gyre — and gimble… in the wabe;\n";
