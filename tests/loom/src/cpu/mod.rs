//! The modules that the pool uses, at the paths that it expects.

#[path = "../../../../crates/exec/src/cpu/parts.rs"]
pub mod parts;
#[path = "../../../../crates/exec/src/cpu/pool.rs"]
pub mod pool;
mod sync;
