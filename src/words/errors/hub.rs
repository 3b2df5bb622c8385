//! Why something was not downloaded, and what to do.

use super::{Spoken, io};
use crate::hub::HubError;

messages! {
    not_built() { en: "this build cannot download: it has no feature `hub`" }
    not_in_cache(repo) { en: "`{repo}` is not in the cache, and `HF_HUB_OFFLINE` is set" }
    file_not_in_cache(repo, path) { en: "`{repo}`: `{path}` is not in the cache, and `HF_HUB_OFFLINE` is set" }
    unreachable(url, reason) { en: "cannot reach `{url}`: {reason}" }
    unauthorized(repo) { en: "the hub does not know `{repo}`, or it is private and the token may not read it (401)" }
    no_token(repo) { en: "the hub does not know `{repo}`, or it is private and there is no token (401)" }
    forbidden(repo, reason) { en: "`{repo}` may not be read (403): {reason}" }
    not_found(repo, what) { en: "`{repo}` has no `{what}` (404)" }
    too_many_requests(attempts) { en: "the hub limits requests (429), also after {attempts} attempts" }
    status(url, status) { en: "`{url}` answered with status {status}" }
    bad_answer(url, reason) { en: "`{url}` gave an answer that cannot be used: {reason}" }
    broken_off(path, bytes, total_bytes, attempts) {
        en: "the download of `{path}` ended at byte {bytes} of {total_bytes}; {attempts} attempts brought no more",
    }
    wrong_hash(path, found, expected) {
        en: "`{path}` arrived damaged twice: its hash is {found}, and should be {expected}",
    }
    no_files(repo, pattern, revision) { en: "`{repo}` has no files like `{pattern}` at `{revision}`" }
    no_sample(dataset, sample, samples) { en: "`{dataset}` has no sample `{sample}`; it has {samples}" }
    too_little_disk(need_bytes, folder, free_bytes) {
        en: "{need_bytes} bytes are needed on the disk of `{folder}`, {free_bytes} are free",
    }
    stopped() { en: "stopped; the downloaded part is kept, and the same command continues" }
    set_a_token() {
        en: "make a token at https://huggingface.co/settings/tokens and set `HF_TOKEN`, or run `hf auth login`",
    }
    accept_terms(repo) {
        en: "open https://huggingface.co/datasets/{repo} (or https://huggingface.co/{repo} for a model), accept its terms, and use a token of that account in `HF_TOKEN`",
    }
    try_later() { en: "try again later; what was downloaded stays and is not asked for again. A token (`HF_TOKEN`) raises the limit" }
    check_network() {
        en: "is there a network? `HF_ENDPOINT` names another hub, `HTTPS_PROXY` a proxy, `SSL_CERT_FILE` certificates; `HF_HUB_OFFLINE=1` uses what is in the cache",
    }
    unset_offline() { en: "unset `HF_HUB_OFFLINE`, or set `HF_HOME` to the folder that has it" }
    smaller_or_elsewhere() {
        en: "`--files N` takes fewer files; `HF_HOME` moves the cache, `--out` the dataset, to another disk",
    }
    build_with_hub() { en: "build it with `--features hub`, or download with `hf download` and name the files" }
}

impl Spoken for HubError {
    fn spoken(&self) -> String {
        match self {
            Self::NotBuilt => not_built(),
            Self::NotInCache { repo, path: None } => not_in_cache(repo),
            Self::NotInCache { repo, path: Some(path) } => file_not_in_cache(repo, path),
            Self::Unreachable { url, reason } => unreachable(url, reason),
            Self::Unauthorized { repo, has_token: true } => unauthorized(repo),
            Self::Unauthorized { repo, has_token: false } => no_token(repo),
            Self::Forbidden { repo, reason } => forbidden(repo, reason),
            Self::NotFound { repo, what } => not_found(repo, what),
            Self::TooManyRequests { attempts } => too_many_requests(attempts),
            Self::Status { url, status: code } => status(url, code),
            Self::BadAnswer { url, reason } => bad_answer(url, reason),
            Self::BrokenOff { path, bytes, total_bytes, attempts } => {
                broken_off(path, bytes, total_bytes, attempts)
            }
            Self::WrongHash { path, found, expected } => wrong_hash(path, found, expected),
            Self::NoFiles { repo, pattern, revision } => no_files(repo, pattern, revision),
            Self::NoSample { dataset, sample, samples } => {
                no_sample(dataset, sample, samples.join(", "))
            }
            Self::TooLittleDisk { need_bytes, free_bytes, folder } => {
                too_little_disk(need_bytes, folder.display(), free_bytes)
            }
            Self::Io { action, path, source } => io::failed(*action, path, source),
            Self::Stopped => stopped(),
        }
    }
}

/// What to do about it.
pub(crate) fn hint(error: &HubError) -> Option<String> {
    Some(match error {
        HubError::NotBuilt => build_with_hub(),
        HubError::NotInCache { .. } => unset_offline(),
        HubError::Unreachable { .. } => check_network(),
        HubError::Unauthorized { .. } => set_a_token(),
        HubError::Forbidden { repo, .. } => accept_terms(repo),
        HubError::TooManyRequests { .. }
        | HubError::Status { .. }
        | HubError::BrokenOff { .. }
        | HubError::WrongHash { .. } => try_later(),
        HubError::TooLittleDisk { .. } => smaller_or_elsewhere(),
        HubError::NotFound { .. }
        | HubError::BadAnswer { .. }
        | HubError::NoFiles { .. }
        | HubError::NoSample { .. }
        | HubError::Io { .. }
        | HubError::Stopped => return None,
    })
}
