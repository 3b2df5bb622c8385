//! Why a request of the page has no document.

use fitgpt_serve::{Refusal, Response};

use super::super::Failure;

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

impl<E: Into<Failure>> From<E> for ApiError {
    fn from(error: E) -> Self {
        Self::Failed(error.into())
    }
}

impl From<ApiError> for Response {
    fn from(error: ApiError) -> Self {
        match error {
            ApiError::Refused(refusal) => refusal.into(),
            ApiError::Failed(failure) => {
                let text = failure.to_json_with_hints().to_string();
                Self::text(422, "application/json", text)
            }
        }
    }
}
