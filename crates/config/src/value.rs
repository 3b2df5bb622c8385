//! A value as Python writes it: `None`, `False`, `12`, `6e-05`, `'out'`.
//!
//! Config files, overrides, checkpoints and JSON all use these five kinds.

use std::{borrow::Cow, fmt};

use serde::{
    Deserialize, Deserializer, Serialize, Serializer,
    de::{Error, Visitor},
};

/// One value of a config, before it is converted to the key's type.
#[derive(Clone, Debug, PartialEq)]
pub enum ConfigValue {
    /// `None`: nothing was chosen.
    None,
    /// `True` or `False`.
    Bool(bool),
    /// A whole number. Unlike Python's, limited to 64 bits.
    Int(i64),
    /// A number with a fraction or an exponent.
    Float(f64),
    /// A string. Borrowed if it comes from the table of keys.
    Str(Cow<'static, str>),
}

impl From<bool> for ConfigValue {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl From<i64> for ConfigValue {
    fn from(value: i64) -> Self {
        Self::Int(value)
    }
}

impl From<u32> for ConfigValue {
    fn from(value: u32) -> Self {
        Self::Int(value.into())
    }
}

impl From<f64> for ConfigValue {
    fn from(value: f64) -> Self {
        Self::Float(value)
    }
}

impl From<&str> for ConfigValue {
    fn from(value: &str) -> Self {
        Self::Str(Cow::Owned(value.to_owned()))
    }
}

impl From<String> for ConfigValue {
    fn from(value: String) -> Self {
        Self::Str(Cow::Owned(value))
    }
}

impl fmt::Display for ConfigValue {
    /// As Python's `repr` writes it, so that a printed config can be read again.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("None"),
            Self::Bool(true) => f.write_str("True"),
            Self::Bool(false) => f.write_str("False"),
            Self::Int(value) => write!(f, "{value}"),
            Self::Float(value) => f.write_str(&float_repr(*value)),
            Self::Str(value) => f.write_str(&str_repr(value)),
        }
    }
}

/// Python's `repr` of a float: the shortest digits that read back the same, in scientific
/// form below 1e-4 and from 1e16 on, with at least two digits in the exponent.
fn float_repr(value: f64) -> String {
    if !value.is_finite() {
        return if value.is_nan() {
            "nan".to_owned()
        } else if value > 0.0 {
            "inf".to_owned()
        } else {
            "-inf".to_owned()
        };
    }
    let shortest = format!("{value:e}"); // `-1.25e-7`: Rust's digits are the shortest too
    let Some((digits, exponent)) = shortest.split_once('e') else { return shortest };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    if (-4..16).contains(&exponent) {
        format!("{value:?}")
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        format!("{digits}e{sign}{:02}", exponent.unsigned_abs())
    }
}

/// Python's `repr` of a string, except that unprintable characters above U+009F are not escaped.
fn str_repr(value: &str) -> String {
    let quote = if value.contains('\'') && !value.contains('"') { '"' } else { '\'' };
    let mut text = String::with_capacity(value.len() + 2);
    text.push(quote);
    for c in value.chars() {
        match c {
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\t' => text.push_str("\\t"),
            '\\' => text.push_str("\\\\"),
            c if c == quote => text.extend(['\\', c]),
            c if u32::from(c) < 0x20 || (0x7f..0xa0).contains(&u32::from(c)) => {
                text.extend(format!("\\x{:02x}", u32::from(c)).chars());
            }
            c => text.push(c),
        }
    }
    text.push(quote);
    text
}

/// A written text as errors quote it, shortened if it is long.
pub(super) fn excerpt(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

impl Serialize for ConfigValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::None => serializer.serialize_none(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => serializer.serialize_i64(*value),
            Self::Float(value) => serializer.serialize_f64(*value),
            Self::Str(value) => serializer.serialize_str(value),
        }
    }
}

impl<'de> Deserialize<'de> for ConfigValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct AnyValue;

        impl Visitor<'_> for AnyValue {
            type Value = ConfigValue;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("null, a bool, a number or a string")
            }

            fn visit_unit<E: Error>(self) -> Result<ConfigValue, E> {
                Ok(ConfigValue::None)
            }

            fn visit_none<E: Error>(self) -> Result<ConfigValue, E> {
                Ok(ConfigValue::None)
            }

            fn visit_bool<E: Error>(self, value: bool) -> Result<ConfigValue, E> {
                Ok(value.into())
            }

            fn visit_i64<E: Error>(self, value: i64) -> Result<ConfigValue, E> {
                Ok(value.into())
            }

            fn visit_u64<E: Error>(self, value: u64) -> Result<ConfigValue, E> {
                i64::try_from(value)
                    .map(ConfigValue::Int)
                    .map_err(|_| E::custom("overflows 64 bits"))
            }

            fn visit_f64<E: Error>(self, value: f64) -> Result<ConfigValue, E> {
                Ok(value.into())
            }

            fn visit_str<E: Error>(self, value: &str) -> Result<ConfigValue, E> {
                Ok(value.into())
            }
        }

        deserializer.deserialize_any(AnyValue)
    }
}

#[cfg(test)]
mod tests {
    use serde::de::{IntoDeserializer, value::Error as DeError};

    use super::*;

    #[test]
    fn floats_print_as_python_prints_them() {
        // Each right side is what CPython's `repr` gives.
        let table = [
            (6e-4, "0.0006"),
            (6e-5, "6e-05"),
            (1e-4, "0.0001"),
            (1.25e-7, "1.25e-07"),
            (1.0, "1.0"),
            (0.1 + 0.2, "0.30000000000000004"),
            (1e15, "1000000000000000.0"),
            (1e16, "1e+16"),
            (-1e100, "-1e+100"),
            (0.0, "0.0"),
            (f64::INFINITY, "inf"),
        ];
        for (value, printed) in table {
            assert_eq!(ConfigValue::Float(value).to_string(), printed);
        }
    }

    #[test]
    fn strings_print_as_python_prints_them() {
        let table = [
            ("out", "'out'"),
            ("\n", r"'\n'"),
            ("it's", "\"it's\""),
            ("it's \"x\"", r#"'it\'s "x"'"#),
            ("C:\\x", r"'C:\\x'"),
            ("\u{7}é", r"'\x07é'"),
        ];
        for (value, printed) in table {
            assert_eq!(ConfigValue::from(value).to_string(), printed);
        }
    }

    #[test]
    fn values_keep_their_type_through_serde() {
        struct Shown(ConfigValue);
        impl fmt::Display for Shown {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.serialize(f)
            }
        }
        assert_eq!(Shown(ConfigValue::Int(12)).to_string(), "12");
        assert_eq!(Shown(ConfigValue::Bool(true)).to_string(), "true");
        assert_eq!(Shown(ConfigValue::from("out")).to_string(), "out");

        let read = |d: Result<ConfigValue, DeError>| d.unwrap();
        assert_eq!(
            read(ConfigValue::deserialize(12_u64.into_deserializer())),
            ConfigValue::Int(12)
        );
        assert_eq!(
            read(ConfigValue::deserialize(1.0_f64.into_deserializer())),
            ConfigValue::Float(1.0)
        );
        assert_eq!(read(ConfigValue::deserialize("x".into_deserializer())), ConfigValue::from("x"));
        assert_eq!(read(ConfigValue::deserialize(().into_deserializer())), ConfigValue::None);
        let too_large: Result<_, DeError> = ConfigValue::deserialize(u64::MAX.into_deserializer());
        assert!(too_large.is_err());
    }
}
