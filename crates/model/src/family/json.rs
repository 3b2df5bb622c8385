//! Reading `config.json`: typed values by key, and errors that name the key.

use fitgpt_config::limits::LAYERS;
use serde_json::{Map, Value as Json};

/// Why a `config.json` does not describe a supported model.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FamilyError {
    /// Not an object.
    NotAnObject,
    /// A model that is not supported.
    ModelType {
        /// As written.
        found: String,
    },
    /// A key that the family needs.
    Missing {
        /// The key.
        key: &'static str,
    },
    /// A feature that is not supported, or a value that makes no sense.
    UnsupportedValue {
        /// The key.
        key: &'static str,
        /// What this program can run.
        expected: Requirement,
        /// What is written, as JSON.
        found: String,
    },
}

/// What a key of `config.json` must be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Requirement {
    /// This value, as JSON writes it.
    Is(&'static str),
    /// One of two values.
    Either(&'static str, &'static str),
    /// A number in this range, both ends included.
    Within(&'static str, &'static str),
    /// From 1 to this, included.
    UpTo(u32),
    /// A divisor of another key.
    Divides(&'static str),
    /// An even number.
    Even,
    /// A number above 0.
    Positive,
    /// One of the supported scalings of rotary positions.
    RopeType,
    /// At least as long as the sequences of the run.
    AtLeastBlock(u32),
    /// A JSON value of this kind.
    Kind(&'static str),
}

/// The largest size that a key may have: anything larger is a damaged file.
const LARGEST: u64 = 1 << 31;

/// A JSON object, read key by key. A key whose value is `null` counts as absent.
#[derive(Clone, Copy, Debug)]
pub(super) struct ConfigDocument<'a>(&'a Map<String, Json>);

impl<'a> ConfigDocument<'a> {
    pub(super) fn new(document: &'a Json) -> Result<Self, FamilyError> {
        document.as_object().map(Self).ok_or(FamilyError::NotAnObject)
    }

    pub(super) fn get(self, key: &str) -> Option<&'a Json> {
        self.0.get(key).filter(|value| !value.is_null())
    }

    /// The object under a key, if there is one.
    pub(super) fn object(self, key: &'static str) -> Result<Option<Self>, FamilyError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_object() {
            Some(object) => Ok(Some(Self(object))),
            None => Err(unsupported_value(key, Requirement::Kind("an object"), value)),
        }
    }

    pub(super) fn text(self, key: &'static str) -> Result<&'a str, FamilyError> {
        let value = self.get(key).ok_or(FamilyError::Missing { key })?;
        value.as_str().ok_or_else(|| unsupported_value(key, Requirement::Kind("a string"), value))
    }

    /// A required size from 1 to 2^31.
    pub(super) fn size(self, key: &'static str) -> Result<u32, FamilyError> {
        self.optional_size(key)?.ok_or(FamilyError::Missing { key })
    }

    /// A required number of blocks.
    pub(super) fn layers(self, key: &'static str) -> Result<u32, FamilyError> {
        match self.size(key)? {
            layers if layers <= LAYERS.most => Ok(layers),
            _ => Err(self.refuse(key, Requirement::UpTo(LAYERS.most))),
        }
    }

    /// A size from 1 to 2^31.
    pub(super) fn optional_size(self, key: &'static str) -> Result<Option<u32>, FamilyError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_u64() {
            Some(size) if (1..=LARGEST).contains(&size) => Ok(Some(size as u32)),
            _ => Err(unsupported_value(key, Requirement::Within("1", "2^31"), value)),
        }
    }

    /// A finite number above 0.
    pub(super) fn positive(self, key: &'static str) -> Result<Option<f64>, FamilyError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_f64() {
            Some(number) if number.is_finite() && number > 0.0 => Ok(Some(number)),
            _ => Err(unsupported_value(key, Requirement::Positive, value)),
        }
    }

    /// A share of activations, from 0 to 1.
    pub(super) fn share(self, key: &'static str) -> Result<Option<f64>, FamilyError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_f64() {
            Some(share) if (0.0..=1.0).contains(&share) => Ok(Some(share)),
            _ => Err(unsupported_value(key, Requirement::Within("0", "1"), value)),
        }
    }

    pub(super) fn flag(self, key: &'static str) -> Result<Option<bool>, FamilyError> {
        let Some(value) = self.get(key) else { return Ok(None) };
        match value.as_bool() {
            Some(flag) => Ok(Some(flag)),
            None => Err(unsupported_value(key, Requirement::Either("true", "false"), value)),
        }
    }

    /// Refuses a flag that requests something unsupported.
    pub(super) fn require(self, key: &'static str, wanted: bool) -> Result<(), FamilyError> {
        match self.flag(key)? {
            Some(flag) if flag != wanted => {
                let expected = Requirement::Is(if wanted { "true" } else { "false" });
                Err(FamilyError::UnsupportedValue { key, expected, found: flag.to_string() })
            }
            _ => Ok(()),
        }
    }

    /// Refuses the key's value.
    pub(super) fn refuse(self, key: &'static str, expected: Requirement) -> FamilyError {
        unsupported_value(key, expected, self.get(key).unwrap_or(&Json::Null))
    }
}

fn unsupported_value(key: &'static str, expected: Requirement, found: &Json) -> FamilyError {
    FamilyError::UnsupportedValue { key, expected, found: found.to_string() }
}
