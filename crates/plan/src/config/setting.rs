//! From a written value to a typed one and back, for every type in the table of keys.

use super::{
    choice::{AttentionBias, DeviceChoice, Gelu, GradCheckpoint, InitFrom, Precision, RopeSetting},
    error::{ConfigError, Place, excerpt},
    keys::{Key, Kind},
    optimizer::{AdjustLr, MuonCoefficients, MuonDtype, OptimizerChoice},
    size,
    value::Value,
};
use crate::family::Family;

/// `dtype`: unwritten, it is chosen by the device.
pub(super) type Dtype = Option<Precision>;
/// `memory_budget` in bytes: unwritten, it is what the device has free.
pub(super) type Budget = Option<u64>;
/// A size whose 0 takes over training's; `Config` hands it out resolved.
pub(super) type Inherited = u32;

/// A number whose 0 means another's; `Config` hands it out resolved.
pub(super) type InheritedReal = f64;
/// `attention_bias`: unwritten, it is the family's.
pub(super) type BiasChoice = Option<AttentionBias>;

/// A type that a key resolves to.
pub(super) trait Setting: Sized {
    /// What a key of this type takes.
    const KIND: Kind;

    /// The typed value. `value` is of [`Self::KIND`] and in the key's range already; `None`
    /// where it names nothing that exists.
    fn read(value: &Value) -> Option<Self>;

    /// The value that [`Self::read`] reads as `self`.
    fn write(&self) -> Value;
}

/// The value as the key keeps it: an int where it takes a float becomes one, `8.0` where it
/// takes an int becomes `8`, 0 and 1 where it takes a bool.
pub(super) fn of_kind(kind: Kind, value: Value) -> Option<Value> {
    match (kind, value) {
        (Kind::Int | Kind::Size, Value::Float(value)) => integral(value).map(Value::Int),
        (Kind::Float, Value::Int(value)) => Some(Value::Float(value as f64)),
        (Kind::Bool | Kind::BoolOr(_), Value::Int(value @ (0 | 1))) => {
            Some(Value::Bool(value == 1))
        }
        (Kind::ChoiceOrNone(_), Value::Str(text)) if text == "auto" => Some(Value::None),
        (kind, value) => {
            let is_taken = match kind {
                Kind::Int => matches!(value, Value::Int(_)),
                Kind::Float => matches!(value, Value::Float(_)),
                Kind::Bool => matches!(value, Value::Bool(_)),
                Kind::Text | Kind::Choice(_) | Kind::Device(_) => matches!(value, Value::Str(_)),
                Kind::ChoiceOrNone(_) => matches!(value, Value::Str(_) | Value::None),
                Kind::BoolOr(_) => matches!(value, Value::Bool(_) | Value::Str(_)),
                Kind::Size => matches!(value, Value::Str(_) | Value::Int(_)),
            };
            is_taken.then_some(value)
        }
    }
}

/// A float without a fraction, as long as it names one whole number only (below 2^53).
fn integral(value: f64) -> Option<i64> {
    let is_one = value.fract() == 0.0 && value.abs() <= (1_i64 << 53) as f64;
    is_one.then_some(value as i64)
}

/// The typed value of `key`, or why it cannot be.
pub(super) fn typed<T: Setting>(
    key: &'static Key,
    value: &Value,
    place: &Place,
) -> Result<T, ConfigError> {
    let name = key.name;
    let written = || match value {
        Value::Str(text) => excerpt(text),
        other => other.to_string(),
    };
    if !key.range.holds(value) {
        let (value, range) = (written(), key.range);
        return Err(ConfigError::OutOfRange { key: name, value, range, place: place.clone() });
    }
    T::read(value).ok_or_else(|| {
        let (value, place) = (written(), place.clone());
        match key.kind {
            Kind::Choice(choices)
            | Kind::ChoiceOrNone(choices)
            | Kind::BoolOr(choices)
            | Kind::Device(choices) => ConfigError::NotAChoice { key: name, value, choices, place },
            Kind::Size => ConfigError::NotASize { key: name, value, place },
            expected => ConfigError::WrongKind { key: name, value, expected, place },
        }
    })
}

impl Setting for u32 {
    const KIND: Kind = Kind::Int;

    fn read(value: &Value) -> Option<Self> {
        let Value::Int(value) = value else { return None };
        Self::try_from(*value).ok()
    }

    fn write(&self) -> Value {
        (*self).into()
    }
}

impl Setting for u64 {
    const KIND: Kind = Kind::Int;

    fn read(value: &Value) -> Option<Self> {
        let Value::Int(value) = value else { return None };
        Self::try_from(*value).ok()
    }

    fn write(&self) -> Value {
        Value::Int(i64::try_from(*self).unwrap_or(i64::MAX)) // no key's range goes beyond
    }
}

impl Setting for f64 {
    const KIND: Kind = Kind::Float;

    fn read(value: &Value) -> Option<Self> {
        if let Value::Float(value) = value { Some(*value) } else { None }
    }

    fn write(&self) -> Value {
        (*self).into()
    }
}

impl Setting for bool {
    const KIND: Kind = Kind::Bool;

    fn read(value: &Value) -> Option<Self> {
        if let Value::Bool(value) = value { Some(*value) } else { None }
    }

    fn write(&self) -> Value {
        (*self).into()
    }
}

impl Setting for String {
    const KIND: Kind = Kind::Text;

    fn read(value: &Value) -> Option<Self> {
        text_of(value).map(str::to_owned)
    }

    fn write(&self) -> Value {
        self.as_str().into()
    }
}

impl Setting for Dtype {
    const KIND: Kind = Kind::ChoiceOrNone(Precision::NAMES);

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::None => Some(None),
            other => Precision::parse(text_of(other)?).map(Some),
        }
    }

    fn write(&self) -> Value {
        self.map_or(Value::None, |precision| precision.name().into())
    }
}

impl Setting for Budget {
    const KIND: Kind = Kind::Size;

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Int(bytes) => u64::try_from(*bytes).ok().filter(|bytes| *bytes > 0).map(Some),
            other => match text_of(other)?.trim() {
                "" => Some(None),
                text => size::parse(text).map(Some),
            },
        }
    }

    fn write(&self) -> Value {
        self.map_or_else(|| "".into(), |bytes| size::text(bytes).into())
    }
}

impl Setting for BiasChoice {
    const KIND: Kind = Kind::ChoiceOrNone(AttentionBias::NAMES);

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::None => Some(None),
            other => AttentionBias::parse(text_of(other)?).map(Some),
        }
    }

    fn write(&self) -> Value {
        self.map_or(Value::None, |bias| bias.name().into())
    }
}

impl Setting for RopeSetting {
    const KIND: Kind = Kind::Choice(Self::FORMS);

    fn read(value: &Value) -> Option<Self> {
        Self::parse(text_of(value)?)
    }

    fn write(&self) -> Value {
        Value::from(self.to_string())
    }
}

impl Setting for MuonCoefficients {
    const KIND: Kind = Kind::Choice(Self::FORMS);

    fn read(value: &Value) -> Option<Self> {
        Self::parse(text_of(value)?)
    }

    fn write(&self) -> Value {
        Value::from(self.to_string())
    }
}

/// Keys that take one of a type's names.
macro_rules! named_settings {
    ($($type:ident)*) => {$(
        impl Setting for $type {
            const KIND: Kind = Kind::Choice(Self::NAMES);

            fn read(value: &Value) -> Option<Self> {
                Self::parse(text_of(value)?)
            }

            fn write(&self) -> Value {
                self.name().into()
            }
        }
    )*};
}
named_settings!(Gelu Family OptimizerChoice AdjustLr MuonDtype InitFrom);

impl Setting for DeviceChoice {
    const KIND: Kind = Kind::Device(Self::NAMES);

    fn read(value: &Value) -> Option<Self> {
        Self::parse(text_of(value)?)
    }

    fn write(&self) -> Value {
        self.to_string().into()
    }
}

impl Setting for GradCheckpoint {
    const KIND: Kind = Kind::BoolOr(&["False", "True", "auto"]);

    fn read(value: &Value) -> Option<Self> {
        match value {
            Value::Bool(false) => Some(Self::Off),
            Value::Bool(true) => Some(Self::Every),
            other => (text_of(other)? == "auto").then_some(Self::Auto),
        }
    }

    fn write(&self) -> Value {
        match self {
            Self::Off => false.into(),
            Self::Every => true.into(),
            Self::Auto => "auto".into(),
        }
    }
}

fn text_of(value: &Value) -> Option<&str> {
    if let Value::Str(text) = value { Some(text) } else { None }
}
