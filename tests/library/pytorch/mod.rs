//! Compares FitGPT with PyTorch, from committed files.

mod families;
mod fixtures;
mod golden;
mod interchange;
mod steps;
