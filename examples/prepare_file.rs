//! Prepares a dataset from a file, for `bench/tokenizer.py`; the program does the same and takes
//! longer to build.
//!
//!     prepare_file FILE FOLDER THREADS

use std::{env, error::Error, num::NonZeroUsize, path::PathBuf};

use fitgpt_prepare::{Input, Options, prepare};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments = env::args().skip(1).collect::<Vec<_>>();
    let [file, folder, threads] = &*arguments else {
        return Err("usage: prepare_file FILE FOLDER THREADS".into());
    };
    let options = Options {
        folder: folder.into(),
        overwrite: true,
        threads: Some(threads.parse::<NonZeroUsize>()?),
        ..Options::new(vec![Input::Path(PathBuf::from(file))])
    };
    prepare(&options, &mut |_| {}, &|| false)?;
    Ok(())
}
