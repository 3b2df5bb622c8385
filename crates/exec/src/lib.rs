//! Runs planned programs on a backend, in one arena.
