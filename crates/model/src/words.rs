//! What a [`Verdict`] is called.

use fitgpt_say::{Lang, Say};

use crate::report::Verdict;

fitgpt_say::messages! {
    fits() { en: "fits", zh: "放得下", ja: "収まる", de: "passt" }
    tight() { en: "tight", zh: "勉强", ja: "ぎりぎり", de: "knapp" }
    does_not_fit() { en: "does not fit", zh: "放不下", ja: "収まらない", de: "passt nicht" }
}

impl Say for Verdict {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::Fits => fits(lang),
            Self::Tight => tight(lang),
            Self::No => does_not_fit(lang),
        }
    }
}
