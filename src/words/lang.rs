//! The language of the process, and of a request from the page.

use std::{
    cell::Cell,
    env,
    sync::atomic::{AtomicU8, Ordering},
};

/// A supported language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lang {
    English,
    Chinese,
    Japanese,
    German,
}

/// Set once, before anything is printed.
static CURRENT: AtomicU8 = AtomicU8::new(Lang::English as u8);

impl Lang {
    pub(crate) const ALL: [Self; 4] = [Self::English, Self::Chinese, Self::Japanese, Self::German];

    /// Its code for `--lang`.
    pub(crate) const fn code(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh",
            Self::Japanese => "ja",
            Self::German => "de",
        }
    }

    /// Its own name for itself.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::English => "English",
            Self::Chinese => "中文",
            Self::Japanese => "日本語",
            Self::German => "Deutsch",
        }
    }

    /// The language of `en`, `zh_CN.UTF-8`, `de-AT` and the like.
    pub(crate) fn of(name: &str) -> Option<Self> {
        let language = name.split(['_', '-', '.', '@']).next()?.to_ascii_lowercase();
        Self::ALL.into_iter().find(|lang| lang.code() == language)
    }

    /// The locale's language; English if it is not supported.
    pub(crate) fn of_locale() -> Self {
        let names = ["LC_ALL", "LC_MESSAGES", "LANG"];
        let set = names.into_iter().filter_map(|name| env::var(name).ok());
        // The first that is set decides, as usual on Unix, even if it is not supported.
        let first = set.into_iter().find(|value| !value.is_empty());
        first.and_then(|name| Self::of(&name)).unwrap_or(Self::English)
    }
}

/// Sets the language.
pub(crate) fn set_lang(lang: Lang) {
    CURRENT.store(lang as u8, Ordering::Relaxed);
}

thread_local! {
    /// The language of the request that this thread answers.
    static OF_REQUEST: Cell<Option<Lang>> = const { Cell::new(None) };
}

/// The current language.
pub(crate) fn lang() -> Lang {
    let of_process = || Lang::ALL[usize::from(CURRENT.load(Ordering::Relaxed))];
    OF_REQUEST.get().unwrap_or_else(of_process)
}

/// Runs `write` in `lang`, on this thread only.
pub(crate) fn with_lang<T>(lang: Lang, write: impl FnOnce() -> T) -> T {
    let before = OF_REQUEST.replace(Some(lang));
    let text = write();
    OF_REQUEST.set(before);
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_language_is_known_by_its_code_and_by_locales() {
        assert_eq!(Lang::of("zh_CN.UTF-8"), Some(Lang::Chinese));
        assert_eq!(Lang::of("ja"), Some(Lang::Japanese));
        assert_eq!(Lang::of("de-AT"), Some(Lang::German));
        assert_eq!(Lang::of("EN_us"), Some(Lang::English));
        assert_eq!(Lang::of("C.UTF-8"), None);
        assert_eq!(Lang::of(""), None);
    }

    #[test]
    fn a_request_has_its_own_language() {
        let before = lang();
        assert_eq!(with_lang(Lang::Japanese, lang), Lang::Japanese);
        assert_eq!(lang(), before);
    }

    #[test]
    fn languages_are_numbered_in_the_order_of_their_list() {
        for (index, lang) in Lang::ALL.into_iter().enumerate() {
            assert_eq!(lang as usize, index);
        }
    }
}
