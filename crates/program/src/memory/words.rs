//! What a [`PlanError`] says.

use fitgpt_say::{Lang, Say};

use super::place::PlanError;

fitgpt_say::messages! {
    too_large_for_one_piece(tensor, need, have) {
        en: "`{tensor}` needs one allocation of {need}, the device allows {have}",
        zh: "`{tensor}` 需要一次分配 {need}，设备单次最多分配 {have}",
        ja: "`{tensor}` は連続した {need} を必要としますが、デバイスが一度に確保できるのは {have} です",
        de: "`{tensor}` braucht eine Allokation von {need}, das Gerät erlaubt {have}",
    }
}

impl Say for PlanError {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::TooLargeForOnePiece { tensor, need, have } => {
                too_large_for_one_piece(lang, tensor, need, have)
            }
        }
    }
}

fitgpt_say::displays_english!(PlanError);
