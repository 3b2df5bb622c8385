//! Writes the seeds of every target to `FOLDER/TARGET`, for `scripts/fuzz`; FOLDER is the argument.

use std::{error::Error, fs, path::Path};

#[cfg(feature = "libfuzzer")]
use libfuzzer_sys as _; // The functions that instrumented code calls.

fn main() -> Result<(), Box<dyn Error>> {
    let folder = std::env::args().nth(1).ok_or("usage: seeds FOLDER")?;
    for target in fitgpt_fuzz::TARGETS {
        let folder = Path::new(&folder).join(target.name);
        fs::create_dir_all(&folder)?;
        for (index, seed) in (target.seeds)().iter().enumerate() {
            fs::write(folder.join(format!("seed-{index}")), seed)?;
        }
    }
    Ok(())
}
