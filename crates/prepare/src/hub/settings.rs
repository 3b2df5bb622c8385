//! Settings from the environment variables of Hugging Face's tools: endpoint, token, cache,
//! offline.

use std::{
    env, fs,
    path::{Path, PathBuf},
    time::Duration,
};

/// How the hub is used.
#[derive(Clone, PartialEq, Eq)]
pub struct Settings {
    /// The address of the hub, without a trailing slash.
    pub endpoint: String,
    /// The access token, sent only to the endpoint.
    pub token: Option<String>,
    /// The folder of repositories: `…/huggingface/hub`.
    pub cache: PathBuf,
    /// Whether the network must not be used.
    pub is_offline: bool,
    /// How often a request is made before it fails.
    pub attempts: u32,
    /// How long to wait before the first repetition; it doubles each time.
    pub first_wait: Duration,
}

const ENDPOINT: &str = "https://huggingface.co";

/// More than any token, which has about 40 characters.
const TOKEN_BYTES_LIMIT: u64 = 4096;

impl Settings {
    /// From the environment.
    pub fn from_env() -> Self {
        Self::from(&|name| env::var_os(name).map(PathBuf::from))
    }

    fn from(variable: &dyn Fn(&str) -> Option<PathBuf>) -> Self {
        let set = |name| variable(name).filter(|value| !value.as_os_str().is_empty());
        let text = |name| set(name).and_then(|value| value.into_os_string().into_string().ok());
        let is_on = |name| {
            text(name).is_some_and(|value| {
                ["1", "ON", "YES", "TRUE"].contains(&&*value.to_ascii_uppercase())
            })
        };
        let endpoint = text("HF_ENDPOINT").unwrap_or_else(|| ENDPOINT.to_owned());
        let home = hugging_face_home(variable);
        let token_file = set("HF_TOKEN_PATH").unwrap_or_else(|| home.join("token"));
        let token = text("HF_TOKEN")
            .or_else(|| text("HUGGING_FACE_HUB_TOKEN"))
            .or_else(|| token_in(&token_file));
        Self {
            endpoint: endpoint.trim_end_matches('/').to_owned(),
            token: token.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty()),
            cache: hub_cache(variable),
            is_offline: is_on("HF_HUB_OFFLINE"),
            attempts: 5,
            first_wait: Duration::from_millis(500),
        }
    }
}

impl std::fmt::Debug for Settings {
    /// Without the token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Settings")
            .field("endpoint", &self.endpoint)
            .field("has_token", &self.token.is_some())
            .field("cache", &self.cache)
            .field("is_offline", &self.is_offline)
            .finish_non_exhaustive()
    }
}

fn token_in(path: &Path) -> Option<String> {
    let facts = fs::metadata(path).ok()?;
    if facts.is_file() && facts.len() <= TOKEN_BYTES_LIMIT {
        return fs::read_to_string(path).ok();
    }
    None
}

/// The cache of Hugging Face's tools: the first variable that is set determines it.
pub fn hub_cache(variable: &dyn Fn(&str) -> Option<PathBuf>) -> PathBuf {
    let set = |name| variable(name).filter(|path| !path.as_os_str().is_empty());
    set("HF_HUB_CACHE").unwrap_or_else(|| hugging_face_home(variable).join("hub"))
}

fn hugging_face_home(variable: &dyn Fn(&str) -> Option<PathBuf>) -> PathBuf {
    let set = |name| variable(name).filter(|path| !path.as_os_str().is_empty());
    let home = || set("HOME").or_else(|| set("USERPROFILE")).unwrap_or_default();
    let cache = || set("XDG_CACHE_HOME").unwrap_or_else(|| home().join(".cache"));
    set("HF_HOME").unwrap_or_else(|| cache().join("huggingface"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn variables_override_defaults_and_a_token_may_be_in_a_file() {
        let home = tempfile::tempdir().unwrap();
        let from = |set: &[(&str, &str)]| {
            Settings::from(&|name| {
                let home = (name == "HOME").then(|| home.path().to_owned());
                home.or_else(|| set.iter().find(|(n, _)| *n == name).map(|(_, v)| v.into()))
            })
        };
        let plain = from(&[]);
        assert_eq!(plain.endpoint, "https://huggingface.co");
        assert_eq!(plain.cache, home.path().join(".cache/huggingface/hub"));
        assert_eq!((plain.token, plain.is_offline), (None, false));
        let folder = home.path().join(".cache/huggingface");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("token"), "hf_file\n").unwrap();
        assert_eq!(from(&[]).token.as_deref(), Some("hf_file"));
        let set = from(&[
            ("HF_TOKEN", "hf_variable"),
            ("HF_ENDPOINT", "http://127.0.0.1:8000/"),
            ("HF_HUB_OFFLINE", "true"),
        ]);
        assert_eq!(set.token.as_deref(), Some("hf_variable"));
        assert_eq!(set.endpoint, "http://127.0.0.1:8000");
        assert!(set.is_offline);
        assert!(!format!("{set:?}").contains("hf_variable"), "a token is not printed");
    }
}
