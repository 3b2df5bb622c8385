//! The operation on a file that failed.

use std::fmt;

/// An operation. Displays as the English verb after `cannot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Open.
    Open,
    /// Read.
    Read,
    /// Write.
    Write,
    /// Create a file or a folder.
    Create,
    /// List a folder.
    List,
    /// Remove.
    Remove,
    /// Rename.
    Rename,
    /// Wait until it is on the disk.
    Sync,
    /// Lock.
    Lock,
    /// Remove the end.
    Truncate,
    /// Copy before a change.
    BackUp,
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Open => "open",
            Self::Read => "read",
            Self::Write => "write",
            Self::Create => "create",
            Self::List => "list",
            Self::Remove => "remove",
            Self::Rename => "rename",
            Self::Sync => "sync",
            Self::Lock => "lock",
            Self::Truncate => "truncate",
            Self::BackUp => "back up",
        })
    }
}
