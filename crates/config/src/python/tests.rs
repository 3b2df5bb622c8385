//! What the reader accepts, what it refuses and where, and that no text makes it panic.

use proptest::prelude::*;

use super::*;
use crate::value::ConfigValue;

const FACTS: MachineFacts = MachineFacts {
    now_seconds: 1_700_000_000.5,
    cuda_is_available: true,
    bf16_is_supported: false,
};

fn evaluate(text: &str) -> Result<ConfigValue, PythonError> {
    let names = |name: &str| (name == "batch_size").then_some(ConfigValue::Int(12));
    parse_expression(text)?.evaluate(&Scope { names: &names, facts: Some(&FACTS) })
}

fn reason(text: &str) -> Reason {
    evaluate(text).unwrap_err().reason
}

#[test]
fn expressions_have_the_value_that_python_gives_them() {
    // Each right side is CPython's `repr` of the left.
    let table = [
        ("5 * 8", "40"),
        ("2 + 3 * 4 - 1", "13"),
        ("(2 + 3) * 4", "20"),
        ("-2 ** 2", "-4"),
        ("2 ** -1", "0.5"),
        ("2 ** 3 ** 2", "512"),
        ("(-1) ** 1000001", "-1"),
        ("7 / 2", "3.5"),
        ("-7 // 2", "-4"),
        ("-7 % 3", "2"),
        ("7 % -3", "-2"),
        ("-7.5 // 2", "-4.0"),
        ("-7.5 % 2", "0.5"),
        ("True + 1", "2"),
        ("1_000_000", "1000000"),
        ("0x1F + 0b11 + 0o17", "49"),
        (".5 + 1. + 1e-3", "1.501"),
        ("6e-5", "6e-05"),
        ("+3", "3"),
        ("- - 3", "3"),
        ("'out-' + \"char\"", "'out-char'"),
        ("'a' 'b' \"c\"", "'abc'"),
        ("'''x\n'y'\n'''", r#""x\n'y'\n""#),
        (r"'\x41\u00e9\101\'\q\t'", r#""AéA'\\q\t""#),
        (r"r'\n'", r"'\\n'"),
        ("f'plain {{x}}'", "'plain {x}'"),
        ("u'x'", "'x'"),
        ("'a\\\nb'", "'ab'"),
        ("1 < 2 < 3", "True"),
        ("1 < 2 > 3", "False"),
        ("1 == 1.0", "True"),
        ("'a' == 1", "False"),
        ("None == None", "True"),
        ("'a' < 'b'", "True"),
        ("not 0 and 'x'", "'x'"),
        ("0 or '' or 3", "3"),
        ("1 and 0 and 1 / 0", "0"),
        ("1 if True else 1 / 0", "1"),
        ("'a' if 1 > 2 else 'b' if 0 else 'c'", "'c'"),
        ("batch_size * 2", "24"),
        ("int(3.9) + int('1_0') + int(True)", "14"),
        ("int(-3.9)", "-3"),
        ("float('1e-3') + float(2)", "2.001"),
        ("str(6e-5) + str(12) + str(True) + str('x')", "'6e-0512Truex'"),
        ("min(3, 1.5, 2)", "1.5"),
        ("max('a', 'b')", "'b'"),
        ("round(2.5) + round(3.5)", "6"),
        ("round(2.675, 2)", "2.67"),
        ("round(7, 2)", "7"),
        ("abs(-3) + abs(-0.5)", "3.5"),
        ("'run' + str(time.time())", "'run1700000000.5'"),
        (
            "'bfloat16' if torch.cuda.is_available() and torch.cuda.is_bf16_supported() \
             else 'float16'",
            "'float16'",
        ),
        ("(1 +\n # a comment\n 2)", "3"),
        ("1 + \\\n 2", "3"),
        ("min(1, 2,)", "1"),
    ];
    for (text, value) in table {
        assert_eq!(evaluate(text).map(|v| v.to_string()), Ok(value.to_owned()), "{text}");
    }
}

#[test]
fn an_unsupported_construct_is_named() {
    let table = [
        ("[1, 2]", "a list"),
        ("(1, 2)", "a tuple"),
        ("()", "a tuple"),
        ("1, 2", "a tuple"),
        ("{'a': 1}", "a dict or a set"),
        ("lambda: 1", "a lambda"),
        ("len('x')", "the call `len(…)`"),
        ("os.path.abspath('a')", "the call `os.path.abspath(…)`"),
        ("math.pi", "the attribute `math.pi`"),
        ("'a'.upper()", "an attribute"),
        ("batch_size[0]", "an index"),
        ("1 << 3", "the operator `<<`"),
        ("1 in 2", "the operator `in`"),
        ("1 is None", "the operator `is`"),
        ("~1", "`~`"),
        ("(x for x in y)", "a comprehension"),
        ("f'{batch_size!r}'", "an f-string with placeholders"),
        ("f'{\"a\"}'", "an f-string with placeholders"),
        ("f'{batch_size:>9}'", "an f-string with placeholders"),
        ("b'x'", "a bytes literal"),
        ("round(2.5, ndigits=1)", "a keyword argument"),
        (r"'\N{DASH}'", "a named character"),
    ];
    for (text, what) in table {
        let said = reason(text).to_string();
        assert_eq!(
            said.split_once(" is not supported: ").map(|(found, _)| found),
            Some(what),
            "{text}"
        );
    }
}

#[test]
fn an_expression_without_a_value_is_an_error() {
    let table = [
        ("1 / 0", "division by zero"),
        ("1 // 0.0", "division by zero"),
        ("1 % 0", "division by zero"),
        ("0 ** -1", "division by zero"),
        ("2 ** 63", "the number overflows 64 bits"),
        ("10 ** 10 ** 10", "the number overflows 64 bits"),
        ("10.0 ** 400", "the number overflows 64 bits"),
        ("9223372036854775807 + 1", "the number overflows 64 bits"),
        ("9223372036854775808", "the number overflows 64 bits"),
        ("int(1e300)", "the number overflows 64 bits"),
        ("'a' + 1", "`+` does not take a string and an int"),
        ("None < 1", "`<` does not take None and an int"),
        ("-'a'", "`-` does not take a string"),
        ("int('x')", "`int` does not take a string"),
        ("int(float('nan'))", "`int` does not take a float"),
        ("min(1)", "`min` does not take an int"),
        ("(-2) ** 0.5", "`**` does not take a negative base with a fractional exponent"),
        ("learning", "unknown name `learning`"),
        ("012", "not a number: `012`"),
        ("1__0", "not a number: `1__0`"),
        ("12abc", "not a number: `12abc`"),
        ("1j", "not a number: `1j`"),
        ("0x", "not a number: `0x`"),
        ("1e", "not a number: `1e`"),
        ("'abc", "unterminated string"),
        ("'abc\n'", "unterminated string"),
        (r"'\x4'", "invalid escape sequence"),
        (r"'\ud800'", "invalid escape sequence"),
        ("", "expected a value, found `end of file`"),
        ("1 +", "expected a value, found `end of line`"),
        ("1 2", "expected the end of the line, found `2`"),
        ("(1", "expected `)`, found `end of file`"),
        ("1 if 2", "expected `else`, found `end of line`"),
        ("$", "expected an expression, found `$`"),
    ];
    for (text, printed) in table {
        assert_eq!(reason(text).to_string(), printed, "{text}");
    }
}

#[test]
fn a_refusal_names_the_line_and_the_column() {
    let table = [
        ("x = 1\n\n# comment\nn_layer = [1]\n", 4, 11),
        ("x = 1\n  y = 2\n", 2, 3),
        ("if x:\n    y = 1\n", 1, 1),
        ("x = 1; for i in y: pass", 1, 8),
        ("dataset = '''a\nb''' + (2\n, 3)", 3, 1),
        ("x: int = 3", 1, 1),
        ("a, b = 1, 2", 1, 1),
        ("print('hello')", 1, 1),
        ("batch_size", 1, 1),
        ("é = 'ü' $", 1, 9),
        ("True = 1", 1, 6),
        ("x = 1\r\ny = 012\r\n", 2, 5),
    ];
    for (text, line, column) in table {
        assert_eq!(parse_file(text).unwrap_err().position, TextPosition { line, column }, "{text}");
    }
}

#[test]
fn an_import_that_would_set_keys_is_refused_by_name() {
    for (text, name) in [
        ("from base import *\n", "`from base import *`"),
        ("from config.base import *", "`from config.base import *`"),
        ("from base import n_layer", "`from base import n_layer`"),
        ("from base import (x, batch_size)", "`from base import ( x , batch_size )`"),
    ] {
        let reason = parse_file(text).unwrap_err().reason.to_string();
        assert!(reason.contains(name), "{reason}");
    }
    for text in ["import time", "from os import path", "from ast import literal_eval as e"] {
        assert_eq!(parse_file(text).unwrap().len(), 0, "{text}");
    }
}

#[test]
fn a_file_keeps_its_assignments_and_nothing_else() {
    let text = "\u{feff}\"\"\"A docstring.\"\"\"\nimport time; from x import (a,\n  b)\n\
                a = b = 1; c = 2 # note\r\nd += 3\n\n";
    let assignments = parse_file(text).unwrap();
    let targets: Vec<Vec<&str>> = assignments
        .iter()
        .map(|a| a.targets.iter().map(|(name, _)| name.as_str()).collect())
        .collect();
    assert_eq!(targets, [vec!["a", "b"], vec!["c"], vec!["d"]]);
}

#[test]
fn deep_and_long_texts_give_an_error_or_a_value() {
    let n = 100_000;
    let deep = Reason::TooDeep { limit: DEPTH_LIMIT };
    assert_eq!(reason(&"(".repeat(n)), deep);
    assert_eq!(reason(&"-".repeat(n)), deep);
    assert_eq!(reason(&"not ".repeat(n)), deep);
    assert_eq!(reason(&"2**".repeat(n)), deep);
    assert_eq!(reason(&"1 if 1 else ".repeat(n)), deep);
    assert_eq!(reason(&"abs(".repeat(n)), deep);
    let sum = format!("1{}", "+1".repeat(n));
    assert_eq!(evaluate(&sum), Ok(ConfigValue::Int(n as i64 + 1)));
    let ordered = format!("1{}", "<=1".repeat(n));
    assert_eq!(evaluate(&ordered), Ok(ConfigValue::Bool(true)));
    let too_long = Reason::TextTooLong { limit: TEXT_LIMIT };
    assert_eq!(reason(&"'x'".repeat(n)), too_long);
    assert_eq!(reason(&format!("'{}'", "x".repeat(n))), too_long);
}

/// Tokens that are likely to combine to something valid.
fn token() -> impl Strategy<Value = String> {
    let fixed = prop::sample::select(vec![
        "batch_size",
        "x",
        "=",
        "==",
        "+",
        "-",
        "*",
        "/",
        "//",
        "%",
        "**",
        "(",
        ")",
        "[",
        "{",
        ",",
        ".",
        ":",
        ";",
        "\n",
        "\\\n",
        " ",
        "if",
        "else",
        "and",
        "or",
        "not",
        "True",
        "None",
        "int",
        "round",
        "min",
        "time.time()",
        "'a'",
        "\"",
        "'''",
        "r'",
        "f'{",
        "0",
        "1",
        "2.5",
        "1e308",
        "0x",
        "9223372036854775807",
        "#",
        "\\x",
        "import",
        "+=",
        "\r",
    ]);
    prop_oneof![9 => fixed.prop_map(str::to_owned), 1 => "\\PC{0,3}"]
}

proptest! {
    #[test]
    fn no_bytes_break_the_reader(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let text = String::from_utf8_lossy(&bytes);
        let _ = parse_file(&text);
        let _ = evaluate(&text);
    }

    #[test]
    fn no_tokens_break_the_reader(tokens in prop::collection::vec(token(), 0..40)) {
        let text = tokens.concat();
        let _ = parse_file(&text);
        let _ = evaluate(&tokens.join(" "));
    }

    #[test]
    fn every_value_reads_back_as_it_prints(
        value in prop_oneof![
            any::<bool>().prop_map(ConfigValue::Bool),
            (i64::MIN + 1..).prop_map(ConfigValue::Int),
            (-1e308..1e308).prop_map(ConfigValue::Float),
            any::<f64>().prop_filter("Python has no literal", |f| f.is_finite()).prop_map(ConfigValue::Float),
            any::<String>().prop_map(ConfigValue::from),
        ]
    ) {
        prop_assert_eq!(evaluate(&value.to_string()), Ok(value));
    }

    #[test]
    fn integer_arithmetic_is_pythons(left in -1000_i64..1000, right in -1000_i64..1000) {
        prop_assume!(right != 0);
        // In Python the remainder has the divisor's sign, and quotient and remainder give the
        // number back.
        let value = |op: &str| match evaluate(&format!("({left}) {op} ({right})")) {
            Ok(ConfigValue::Int(value)) => value,
            other => panic!("{other:?}"),
        };
        let (quotient, remainder) = (value("//"), value("%"));
        prop_assert_eq!(quotient * right + remainder, left);
        prop_assert!(remainder == 0 || (remainder < 0) == (right < 0));
        prop_assert!(remainder.abs() < right.abs());
    }
}
