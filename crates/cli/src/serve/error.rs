//! Why a request of the page has no document.

use fitgpt_commands::Failure;
use fitgpt_config::ConfigError;
use fitgpt_serve::{Refusal, Response};

use crate::words::lang;

/// Why a request has no document.
pub(super) enum ApiError {
    /// The page does not send such a request.
    Refused(Refusal),
    /// The page shows the reason.
    Failed(Failure),
}

impl From<Refusal> for ApiError {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

impl From<Failure> for ApiError {
    fn from(failure: Failure) -> Self {
        Self::Failed(failure)
    }
}

impl From<ConfigError> for ApiError {
    fn from(error: ConfigError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<ApiError> for Response {
    fn from(error: ApiError) -> Self {
        match error {
            ApiError::Refused(refusal) => refusal.into(),
            ApiError::Failed(failure) => {
                let text = failure.to_json_with_hints(lang()).to_string();
                Self::text(422, "application/json", text)
            }
        }
    }
}
