//! What a [`Reason`] says.

use fitgpt_say::{Lang, Say};

use super::reason::{Construct, ExpectedToken, FoundToken, GivenArguments, Reason, ValueNoun};

fitgpt_say::messages! {
    expected(wanted, found) {
        en: "expected {wanted}, found `{found}`",
        zh: "此处应为{wanted}，却是 `{found}`",
        ja: "{wanted}が必要ですが、`{found}` があります",
        de: "erwartet: {wanted}, gefunden: `{found}`",
    }
    unsupported(what) {
        en: "{what} is not supported: a config may contain only assignments of simple expressions",
        zh: "这里不支持{what}：配置文件只能包含简单表达式的赋值",
        ja: "{what}には対応していません。設定ファイルに書けるのは単純な式の代入だけです",
        de: "{what} wird nicht unterstützt: eine Konfiguration darf nur Zuweisungen einfacher Ausdrücke enthalten",
    }
    indented() {
        en: "unexpected indentation", zh: "意外的缩进", ja: "予期しないインデントです", de: "unerwartete Einrückung",
    }
    bad_number(literal) {
        en: "not a number: `{literal}`", zh: "不是数字：`{literal}`", ja: "数値ではありません: `{literal}`", de: "keine Zahl: `{literal}`",
    }
    open_string() {
        en: "unterminated string", zh: "字符串没有结束", ja: "文字列が閉じられていません", de: "die Zeichenkette ist nicht geschlossen",
    }
    bad_escape() {
        en: "invalid escape sequence",
        zh: "无效的转义序列",
        ja: "無効なエスケープシーケンスです",
        de: "ungültige Escape-Sequenz",
    }
    too_long(limit) {
        en: "the string is longer than {limit} bytes",
        zh: "字符串超过 {limit} 字节",
        ja: "文字列が {limit} バイトを超えています",
        de: "die Zeichenkette ist länger als {limit} Byte",
    }
    too_deep(limit) {
        en: "nested deeper than {limit} levels",
        zh: "嵌套超过 {limit} 层",
        ja: "入れ子が {limit} 段を超えています",
        de: "tiefer als {limit} Ebenen verschachtelt",
    }
    unknown_name(name) {
        en: "unknown name `{name}`",
        zh: "未知的名称 `{name}`",
        ja: "未知の名前 `{name}` です",
        de: "unbekannter Name `{name}`",
    }
    by_zero() { en: "division by zero", zh: "除以零", ja: "ゼロ除算です", de: "Division durch null" }
    overflow() {
        en: "the number overflows 64 bits", zh: "数值超出 64 位", ja: "数値が 64 ビットに収まりません", de: "die Zahl übersteigt 64 Bit",
    }
    operands(operator, left, right) {
        en: "`{operator}` does not take {left} and {right}",
        zh: "`{operator}` 不能用于{left}和{right}",
        ja: "`{operator}` は{left}と{right}には使えません",
        de: "mit `{operator}` nicht zu verbinden: {left} und {right}",
    }
    argument(function, given) {
        en: "`{function}` does not take {given}",
        zh: "`{function}` 不接受{given}",
        ja: "`{function}` は{given}を受け取れません",
        de: "ungeeignet für `{function}`: {given}",
    }
    value() { en: "a value", zh: "一个值", ja: "値", de: "ein Wert" }
    expression() { en: "an expression", zh: "表达式", ja: "式", de: "ein Ausdruck" }
    one_expression() { en: "one expression", zh: "单个表达式", ja: "1 つの式", de: "ein einziger Ausdruck" }
    end_of_line_wanted() { en: "the end of the line", zh: "行尾", ja: "行末", de: "das Ende der Zeile" }
    end_after_backslash() {
        en: "a line break after `\\`", zh: " `\\` 之后的行尾", ja: " `\\` の後の改行", de: "das Zeilenende nach `\\`",
    }
    line_after_backslash() {
        en: "a line after `\\`", zh: " `\\` 之后的一行", ja: " `\\` の後の行", de: "eine Zeile nach `\\`",
    }
    name_before_equals() {
        en: "a name before `=`", zh: " `=` 之前的名称", ja: " `=` の前の名前", de: "ein Name vor `=`",
    }
    name_and_operator() {
        en: "a name and an operator", zh: "名称和运算符", ja: "名前と演算子", de: "ein Name und ein Operator",
    }
    operator() { en: "an operator", zh: "运算符", ja: "演算子", de: "ein Operator" }
    name() { en: "a name", zh: "名称", ja: "名前", de: "ein Name" }
    name_after_dot() {
        en: "a name after `.`", zh: " `.` 之后的名称", ja: " `.` の後の名前", de: "ein Name nach `.`",
    }
    this_text(text) { en: "`{text}`", zh: " `{text}`", ja: " `{text}` ", de: "`{text}`" }
    end_of_line() { en: "end of line", zh: "行尾", ja: "行末", de: "Zeilenende" }
    end_of_file() { en: "end of file", zh: "文件末尾", ja: "ファイル末尾", de: "Dateiende" }
    statement(word) {
        en: "a `{word}` statement", zh: "含 `{word}` 的语句", ja: "`{word}` を使う文", de: "eine Anweisung mit `{word}`",
    }
    annotation() { en: "an annotation", zh: "类型注解", ja: "型注釈", de: "eine Annotation" }
    tuple_assignment() {
        en: "an assignment to a tuple", zh: "对元组的赋值", ja: "タプルへの代入", de: "eine Zuweisung an ein Tupel",
    }
    unassigned() {
        en: "an expression without an assignment", zh: "没有赋值的表达式", ja: "代入されない式", de: "ein Ausdruck ohne Zuweisung",
    }
    tuple() { en: "a tuple", zh: "元组", ja: "タプル", de: "ein Tupel" }
    attribute() { en: "an attribute", zh: "属性", ja: "属性", de: "ein Attribut" }
    attribute_path(path) {
        en: "the attribute `{path}`", zh: "属性 `{path}`", ja: "属性 `{path}` ", de: "das Attribut `{path}`",
    }
    index() { en: "an index", zh: "下标", ja: "添字", de: "ein Index" }
    call() { en: "a call", zh: "函数调用", ja: "関数呼び出し", de: "ein Aufruf" }
    call_of(path) {
        en: "the call `{path}(…)`", zh: "调用 `{path}(…)`", ja: "`{path}(…)` の呼び出し", de: "der Aufruf `{path}(…)`",
    }
    operator_named(sign) {
        en: "the operator `{sign}`", zh: "运算符 `{sign}`", ja: "演算子 `{sign}` ", de: "der Operator `{sign}`",
    }
    comprehension() { en: "a comprehension", zh: "推导式", ja: "内包表記", de: "eine Comprehension" }
    lambda() { en: "a lambda", zh: " lambda 表达式", ja: "ラムダ式", de: "ein Lambda" }
    list() { en: "a list", zh: "列表", ja: "リスト", de: "eine Liste" }
    dict_or_set() { en: "a dict or a set", zh: "字典或集合", ja: "辞書や集合", de: "ein Dict oder ein Set" }
    sign(sign) { en: "`{sign}`", zh: " `{sign}`", ja: "`{sign}` ", de: "`{sign}`" }
    argument_by_name() {
        en: "a keyword argument", zh: "关键字参数", ja: "キーワード引数", de: "ein benanntes Argument",
    }
    bytes() { en: "a bytes literal", zh: "字节串字面量", ja: "バイト列リテラル", de: "ein Bytes-Literal" }
    string_prefix() {
        en: "a string with this prefix", zh: "带此前缀的字符串", ja: "この接頭辞の付いた文字列", de: "eine Zeichenkette mit diesem Präfix",
    }
    f_string() {
        en: "an f-string with placeholders", zh: "带占位符的 f-string", ja: "プレースホルダのある f 文字列", de: "ein f-String mit Platzhaltern",
    }
    character_by_name() {
        en: "a named character", zh: "按名称书写的字符", ja: "名前による文字の指定", de: "ein Zeichen mit Namen",
    }
    machine() {
        en: "a query about the machine outside a config file",
        zh: "在配置文件之外查询本机信息",
        ja: "設定ファイルの外でのマシン情報の問い合わせ",
        de: "eine Abfrage des Rechners außerhalb einer Konfigurationsdatei",
    }
    none() { en: "None", zh: " None ", ja: " None ", de: "None" }
    a_bool() { en: "a bool", zh: "布尔值", ja: "真偽値", de: "ein Wahrheitswert" }
    an_int() { en: "an int", zh: "整数", ja: "整数", de: "eine ganze Zahl" }
    a_float() { en: "a float", zh: "浮点数", ja: "浮動小数点数", de: "eine Gleitkommazahl" }
    a_string() { en: "a string", zh: "字符串", ja: "文字列", de: "eine Zeichenkette" }
    nothing() { en: "an empty argument list", zh: "空参数列表", ja: "空の引数リスト", de: "eine leere Argumentliste" }
    several(count) {
        en: "{count} arguments", zh: " {count} 个参数", ja: " {count} 個の引数", de: "{count} Argumente",
    }
    negative_base() {
        en: "a negative base with a fractional exponent",
        zh: "负的底数与小数指数",
        ja: "負の底と小数の指数",
        de: "eine negative Basis mit gebrochenem Exponenten",
    }
}

impl Say for Reason {
    fn say(&self, lang: Lang) -> String {
        match self {
            Self::Expected { expected: wanted, found } => {
                let found = match found {
                    FoundToken::Text(text) => text.clone(),
                    FoundToken::EndOfLine => end_of_line(lang),
                    FoundToken::EndOfFile => end_of_file(lang),
                };
                expected(lang, self::wanted(lang, *wanted), found)
            }
            Self::Unsupported { what } => unsupported(lang, construct(lang, what)),
            Self::Indented => indented(lang),
            Self::BadNumber { literal } => bad_number(lang, literal),
            Self::UnterminatedString => open_string(lang),
            Self::BadEscape => bad_escape(lang),
            Self::TextTooLong { limit } => too_long(lang, limit),
            Self::TooDeep { limit } => too_deep(lang, limit),
            Self::UnknownName { name } => unknown_name(lang, name),
            Self::DivisionByZero => by_zero(lang),
            Self::Overflow => overflow(lang),
            Self::Operands { operator, left, right } => {
                operands(lang, operator, noun(lang, *left), noun(lang, *right))
            }
            Self::Argument { function, given } => {
                let given = match given {
                    GivenArguments::Nothing => nothing(lang),
                    GivenArguments::One(kind) => noun(lang, *kind),
                    GivenArguments::Several(count) => several(lang, count),
                    GivenArguments::NegativeBase => negative_base(lang),
                };
                argument(lang, function, given)
            }
        }
    }
}

fitgpt_say::displays_english!(Reason);

fn wanted(lang: Lang, wanted: ExpectedToken) -> String {
    match wanted {
        ExpectedToken::Value => value(lang),
        ExpectedToken::Expression => expression(lang),
        ExpectedToken::OneExpression => one_expression(lang),
        ExpectedToken::EndOfLine => end_of_line_wanted(lang),
        ExpectedToken::EndAfterBackslash => end_after_backslash(lang),
        ExpectedToken::LineAfterBackslash => line_after_backslash(lang),
        ExpectedToken::NameBeforeEquals => name_before_equals(lang),
        ExpectedToken::NameAndOperator => name_and_operator(lang),
        ExpectedToken::Operator => operator(lang),
        ExpectedToken::Name => name(lang),
        ExpectedToken::NameAfterDot => name_after_dot(lang),
        ExpectedToken::Text(text) => this_text(lang, text),
    }
}

fn construct(lang: Lang, construct: &Construct) -> String {
    match construct {
        Construct::Statement(word) => statement(lang, word),
        Construct::Annotation => annotation(lang),
        Construct::TupleAssignment => tuple_assignment(lang),
        Construct::Unassigned => unassigned(lang),
        Construct::Tuple => tuple(lang),
        Construct::Attribute => attribute(lang),
        Construct::AttributePath(path) => attribute_path(lang, path),
        Construct::Index => index(lang),
        Construct::Call => call(lang),
        Construct::CallOf(path) => call_of(lang, path),
        Construct::Operator(word) => operator_named(lang, word),
        Construct::Comprehension => comprehension(lang),
        Construct::Lambda => lambda(lang),
        Construct::List => list(lang),
        Construct::DictOrSet => dict_or_set(lang),
        Construct::Sign(text) => sign(lang, text),
        Construct::ArgumentByName => argument_by_name(lang),
        Construct::Bytes => bytes(lang),
        Construct::StringPrefix => string_prefix(lang),
        Construct::FString => f_string(lang),
        Construct::CharacterByName => character_by_name(lang),
        Construct::Machine => machine(lang),
    }
}

fn noun(lang: Lang, noun: ValueNoun) -> String {
    match noun {
        ValueNoun::None => none(lang),
        ValueNoun::Bool => a_bool(lang),
        ValueNoun::Int => an_int(lang),
        ValueNoun::Float => a_float(lang),
        ValueNoun::Str => a_string(lang),
    }
}
