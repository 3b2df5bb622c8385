//! The language of the process, and of a request from the page.

use std::{
    cell::Cell,
    env,
    sync::atomic::{AtomicU8, Ordering},
};

use fitgpt_say::Lang;

/// Set once, before anything is printed.
static CURRENT: AtomicU8 = AtomicU8::new(Lang::English as u8);

/// The locale's language; English if it is not supported.
pub(crate) fn of_locale() -> Lang {
    let names = ["LC_ALL", "LC_MESSAGES", "LANG"];
    let set = names.into_iter().filter_map(|name| env::var(name).ok());
    // The first that is set decides, as usual on Unix, even if it is not supported.
    let first = set.into_iter().find(|value| !value.is_empty());
    first.and_then(|name| Lang::of(&name)).unwrap_or(Lang::English)
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
    fn a_request_has_its_own_language() {
        let before = lang();
        assert_eq!(with_lang(Lang::Japanese, lang), Lang::Japanese);
        assert_eq!(lang(), before);
    }
}
