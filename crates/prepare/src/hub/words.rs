//! What a [`HubError`] says, and what to do.

use fitgpt_say::{Lang, Say};

use super::error::HubError;

fitgpt_say::messages! {
    not_built() { en: "this build cannot download: it has no feature `hub`" }
    not_in_cache(repo) { en: "`{repo}` is not in the cache, and `HF_HUB_OFFLINE` is set" }
    file_not_in_cache(repo, path) { en: "`{repo}`: `{path}` is not in the cache, and `HF_HUB_OFFLINE` is set" }
    unreachable(url, reason) { en: "cannot reach `{url}`: {reason}" }
    unauthorized(repo) { en: "`{repo}` is not on the hub, or it is private and the token may not read it (401)" }
    no_token(repo) { en: "`{repo}` is not on the hub, or it is private and there is no token (401)" }
    forbidden(repo, reason) { en: "`{repo}` may not be read (403): {reason}" }
    not_found(repo, what) { en: "`{repo}` has no `{what}` (404)" }
    too_many_requests(attempts) { en: "the hub still refuses requests as too many (429) after {attempts} attempts" }
    status(url, status) { en: "`{url}` returned status {status}" }
    bad_response(url, reason) { en: "`{url}` returned a response that cannot be used: {reason}" }
    broken_off(path, bytes, total_bytes, attempts) {
        en: "the download of `{path}` stopped at byte {bytes} of {total_bytes}, after {attempts} attempts",
    }
    wrong_hash(path, found, expected) {
        en: "`{path}` was damaged in two downloads: its hash is {found}, expected {expected}",
    }
    no_files(repo, pattern, revision) { en: "`{repo}` has no files that match `{pattern}` at `{revision}`" }
    no_sample(dataset, sample, samples) { en: "`{dataset}` has no sample `{sample}`; it has {samples}" }
    too_little_disk(need_bytes, folder, free_bytes) {
        en: "{need_bytes} bytes are needed on the disk of `{folder}`, {free_bytes} are free",
    }
    stopped() { en: "stopped; the downloaded part is kept, and the same command resumes the download" }
    set_a_token() {
        en: "make a token at https://huggingface.co/settings/tokens and set `HF_TOKEN`, or run `hf auth login`",
    }
    accept_terms(repo) {
        en: "open https://huggingface.co/datasets/{repo} (or https://huggingface.co/{repo} for a model), accept its terms, and use a token of that account in `HF_TOKEN`",
    }
    try_later() { en: "try again later; the downloaded part is kept, and a token (`HF_TOKEN`) raises the limit of requests" }
    check_network() {
        en: "check the network; `HF_ENDPOINT` sets another hub, `HTTPS_PROXY` a proxy, `SSL_CERT_FILE` certificates; `HF_HUB_OFFLINE=1` uses only the cache",
    }
    unset_offline() { en: "unset `HF_HUB_OFFLINE`, or set `HF_HOME` to the cache that has it" }
    smaller_or_elsewhere() {
        en: "`--files N` takes fewer files; `HF_HOME` moves the cache, `--out` the dataset, to another disk",
    }
    build_with_hub() { en: "build with `--features hub`, or download with `hf download` and pass the files" }
}

impl Say for HubError {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::NotBuilt => not_built(lang),
            Self::NotInCache { repo, path: None } => not_in_cache(lang, repo),
            Self::NotInCache { repo, path: Some(path) } => file_not_in_cache(lang, repo, path),
            Self::Unreachable { url, reason } => unreachable(lang, url, reason),
            Self::Unauthorized { repo, has_token: true } => unauthorized(lang, repo),
            Self::Unauthorized { repo, has_token: false } => no_token(lang, repo),
            Self::Forbidden { repo, reason } => forbidden(lang, repo, reason),
            Self::NotFound { repo, what } => not_found(lang, repo, what),
            Self::TooManyRequests { attempts } => too_many_requests(lang, attempts),
            Self::Status { url, status: code } => status(lang, url, code),
            Self::BadResponse { url, reason } => bad_response(lang, url, reason),
            Self::BrokenOff { path, bytes, total_bytes, attempts } => {
                broken_off(lang, path, bytes, total_bytes, attempts)
            }
            Self::WrongHash { path, found, expected } => wrong_hash(lang, path, found, expected),
            Self::NoFiles { repo, pattern, revision } => no_files(lang, repo, pattern, revision),
            Self::NoSample { dataset, sample, samples } => {
                no_sample(lang, dataset, sample, samples.join(", "))
            }
            Self::TooLittleDisk { need_bytes, free_bytes, folder } => {
                too_little_disk(lang, need_bytes, folder.display(), free_bytes)
            }
            Self::Io { action, path, source } => action.failed(lang, path, source),
            Self::Stopped => stopped(lang),
        }
    }
}

impl HubError {
    /// What to do about it.
    pub fn hint(&self, lang: Lang) -> Option<String> {
        Some(match self {
            Self::NotBuilt => build_with_hub(lang),
            Self::NotInCache { .. } => unset_offline(lang),
            Self::Unreachable { .. } => check_network(lang),
            Self::Unauthorized { .. } => set_a_token(lang),
            Self::Forbidden { repo, .. } => accept_terms(lang, repo),
            Self::TooManyRequests { .. }
            | Self::Status { .. }
            | Self::BrokenOff { .. }
            | Self::WrongHash { .. } => try_later(lang),
            Self::TooLittleDisk { .. } => smaller_or_elsewhere(lang),
            Self::NotFound { .. }
            | Self::BadResponse { .. }
            | Self::NoFiles { .. }
            | Self::NoSample { .. }
            | Self::Io { .. }
            | Self::Stopped => return None,
        })
    }
}

fitgpt_say::displays_english!(HubError);
