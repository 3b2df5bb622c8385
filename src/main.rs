//! `fitgpt`: trains GPT-2-class models in a memory budget that it knows before the first step.

fn main() {}
