//! The languages.

/// A supported language.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lang {
    /// The language of every fact, log and JSON.
    English,
    /// In simplified characters.
    Chinese,
    /// Polite.
    Japanese,
    /// With decimal commas.
    German,
}

impl Lang {
    /// In the order of their texts in a [`Message`](crate::Message).
    pub const ALL: [Self; 4] = [Self::English, Self::Chinese, Self::Japanese, Self::German];

    /// Its code for `--lang`.
    pub const fn code(self) -> &'static str {
        match self {
            Self::English => "en",
            Self::Chinese => "zh",
            Self::Japanese => "ja",
            Self::German => "de",
        }
    }

    /// Its own name for itself.
    pub const fn name(self) -> &'static str {
        match self {
            Self::English => "English",
            Self::Chinese => "中文",
            Self::Japanese => "日本語",
            Self::German => "Deutsch",
        }
    }

    /// The language of `en`, `zh_CN.UTF-8`, `de-AT` and the like.
    pub fn of(name: &str) -> Option<Self> {
        let language = name.split(['_', '-', '.', '@']).next()?.to_ascii_lowercase();
        Self::ALL.into_iter().find(|lang| lang.code() == language)
    }
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
    fn languages_are_numbered_in_the_order_of_their_list() {
        for (index, lang) in Lang::ALL.into_iter().enumerate() {
            assert_eq!(lang as usize, index);
        }
    }
}
