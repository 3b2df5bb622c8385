//! What is put before an error, a hint and a note.

fitgpt_say::messages! {
    /// Before what went wrong.
    error() { en: "error: ", zh: "错误：", ja: "エラー: ", de: "Fehler: " }
    /// Before advice.
    hint() { en: "hint: ", zh: "提示：", ja: "ヒント: ", de: "Tipp: " }
    /// Before a note that is not part of the answer.
    note() { en: "note: ", zh: "注意：", ja: "注: ", de: "Hinweis: " }
    /// A place and what went wrong there.
    placed(place, message) {
        en: "{place}: {message}", zh: "{place}：{message}", ja: "{place}: {message}", de: "{place}: {message}",
    }
}
