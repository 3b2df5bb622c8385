//! What was tried on a file when the operating system said no.

use std::fmt;

/// A verb. Prints as English says it after `cannot`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Attempt {
    /// Open.
    Open,
    /// Read.
    Read,
    /// Write.
    Write,
    /// Make a file or a folder.
    Create,
    /// Look what is in a folder.
    List,
    /// Remove.
    Remove,
    /// Give another name.
    Rename,
    /// Wait until the disk has it.
    Sync,
    /// Keep others out.
    Lock,
    /// Remove the end.
    CutBack,
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
            Self::CutBack => "cut back",
            Self::BackUp => "back up",
        })
    }
}
