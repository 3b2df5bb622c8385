//! FitGPT against PyTorch, from committed files.

mod fixtures;
mod golden;
mod interchange;
mod steps;
