//! `--gpu list`: the cards that are known by name.

use fitgpt_fit::device::GPUS;
use serde_json::json;

use super::{Outcome, OutputStyle};
use crate::terminal;

/// Prints every card with the memory that a process can use.
pub(super) fn print(style: OutputStyle) -> Outcome {
    match style {
        OutputStyle::Json => {
            let card = |gpu: &fitgpt_fit::device::CardSpec| {
                json!({ "name": gpu.name, "total_bytes": gpu.total_bytes(),
                    "has_bfloat16": gpu.has_bf16(), "has_triton": gpu.has_triton() })
            };
            terminal::json(&json!({ "cards": GPUS.iter().map(card).collect::<Vec<_>>() }));
        }
        OutputStyle::Text => {
            for gpu in GPUS {
                terminal::line(&format!("{:<34} {:>12}", gpu.name, gpu.total_bytes().to_string()));
            }
        }
    }
    Outcome::Yes
}
