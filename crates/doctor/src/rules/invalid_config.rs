//! # `invalid-config`
//!
//! ## What it detects
//! The config is invalid: the heads do not divide the channels, nanoGPT does not know a key, or a
//! value has the wrong type.
//!
//! ## Why it happens
//! Common advice names keys that nanoGPT never had (`eval_batch_size`, `eval_block_size`,
//! `grad_checkpoint`) and widths that its heads do not divide: 512 and 448 are not multiples of 12.
//!
//! ## What helps
//! 8 heads for 512 channels, 7 for 448, or a width that is a multiple of the number of heads.
//! `fitgpt` knows the three keys above.

use fitgpt_say::{Lang, Say as _};

use super::RuleMatch;
use crate::{cause::Cause, facts::Certainty, reason::Analysis};

pub(super) fn check(analysis: &Analysis<'_>) -> Option<RuleMatch> {
    let cause = match (&analysis.config_error, &analysis.log.progress.refused) {
        (Some(error), _) => Cause::InvalidConfig {
            problem: Some(error.kind().to_owned()),
            message: Some(error.say(Lang::English)),
            key: None,
        },
        (None, Some(key)) => {
            Cause::InvalidConfig { problem: None, message: None, key: Some(key.clone()) }
        }
        (None, None) => return None,
    };
    Some(RuleMatch { certainty: Certainty::Certain, is_cause: true, cause })
}
