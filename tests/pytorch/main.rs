//! FitGPT against PyTorch, from committed files.

mod families;
mod fixtures;
mod golden;
mod interchange;
mod steps;
