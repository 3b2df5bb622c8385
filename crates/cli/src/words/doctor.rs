//! What `doctor` prints without an input; the diagnosis has its sentences in its own crate.

messages! {
    /// Usage examples, if there is no input.
    examples() {
        en: "fitgpt doctor reads a log from a file or from stdin:\n",
        zh: "fitgpt doctor 从文件或标准输入读取日志：\n",
        ja: "fitgpt doctor はファイルまたは標準入力からログを読みます:\n",
        de: "fitgpt doctor liest ein Log aus einer Datei oder von der Standardeingabe:\n",
    }
}
