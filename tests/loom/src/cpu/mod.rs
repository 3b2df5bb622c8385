//! The modules that the pool names, where it looks for them.

#[path = "../../../../crates/exec/src/cpu/parts.rs"]
pub mod parts;
#[path = "../../../../crates/exec/src/cpu/pool.rs"]
pub mod pool;
mod sync;
