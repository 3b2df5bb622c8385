//! What stands in for the network in a build without feature `hub`: nothing is ever asked for.

use std::io::{self, Read};

/// Asks nobody.
#[derive(Debug)]
pub(super) struct Network;

/// Never made.
pub(super) struct Answer {
    pub(super) status: u16,
    pub(super) body: Box<dyn Read>,
}

/// Why there is no answer.
#[derive(Debug)]
pub(super) enum NoAnswer {
    /// The build has no network.
    NotBuilt,
    /// Never made.
    #[expect(dead_code, reason = "of the other file")]
    Failed(String),
}

impl Answer {
    pub(super) fn header(&self, _: &str) -> Option<&str> {
        None
    }
}

impl Network {
    #[expect(clippy::unnecessary_wraps, reason = "as the other file has it")]
    pub(super) fn new() -> Result<Self, NoAnswer> {
        Ok(Self)
    }

    #[expect(clippy::unused_self, reason = "as the other file has it")]
    pub(super) fn get(&self, _: &str, _: &[(&str, &str)]) -> Result<Answer, NoAnswer> {
        let nothing: Result<Answer, NoAnswer> =
            Ok(Answer { status: 0, body: Box::new(io::empty()) });
        nothing.and(Err(NoAnswer::NotBuilt))
    }
}

/// Never fed: nothing arrives.
#[derive(Clone)]
pub(super) struct Hasher;

impl Hasher {
    pub(super) fn sha256() -> Self {
        Self
    }

    pub(super) fn sha1() -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "as the other file has it")]
    pub(super) fn update(&mut self, _: &[u8]) {}

    pub(super) fn finish(self) -> String {
        String::new()
    }
}
