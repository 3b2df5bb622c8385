//! The stand-in for the network in a build without feature `hub`: every request fails.

use std::io::{self, Read};

/// Sends nothing.
#[derive(Debug)]
pub(super) struct Network;

/// Never constructed.
pub(super) struct HttpResponse {
    pub(super) status: u16,
    pub(super) body: Box<dyn Read>,
}

/// Why there is no response.
#[derive(Debug)]
pub(super) enum HttpError {
    /// The build has no feature `hub`.
    NotBuilt,
    /// Never constructed.
    #[expect(dead_code, reason = "used in the other build")]
    Failed(String),
}

impl HttpResponse {
    #[expect(clippy::unused_self, reason = "the same signature as in the other build")]
    pub(super) fn header(&self, _: &str) -> Option<&str> {
        None
    }
}

impl Network {
    #[expect(clippy::unnecessary_wraps, reason = "the same signature as in the other build")]
    pub(super) fn new() -> Result<Self, HttpError> {
        Ok(Self)
    }

    #[expect(clippy::unused_self, reason = "the same signature as in the other build")]
    pub(super) fn get(&self, _: &str, _: &[(&str, &str)]) -> Result<HttpResponse, HttpError> {
        let nothing: Result<HttpResponse, HttpError> =
            Ok(HttpResponse { status: 0, body: Box::new(io::empty()) });
        nothing.and(Err(HttpError::NotBuilt))
    }
}

/// Never used.
#[derive(Clone)]
pub(super) struct Hasher;

impl Hasher {
    pub(super) fn sha256() -> Self {
        Self
    }

    pub(super) fn sha1() -> Self {
        Self
    }

    #[expect(clippy::unused_self, reason = "the same signature as in the other build")]
    pub(super) fn update(&mut self, _: &[u8]) {}

    #[expect(clippy::unused_self, reason = "the same signature as in the other build")]
    pub(super) fn finish(self) -> String {
        String::new()
    }
}
