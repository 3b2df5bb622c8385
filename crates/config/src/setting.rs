//! From a written value to a typed one and back, for every type in the table of keys.

use fitgpt_program::{AdjustLr, Gelu, Products};

use super::{
    choice::{
        AttentionBias, DeviceChoice, Family, GradCheckpoint, InitFrom, Precision, ResumeFrom,
        RopeSetting,
    },
    key::ValueKind,
    optimizer::{MuonCoefficients, MuonDtype, OptimizerChoice},
    size,
    value::ConfigValue,
};

/// `dtype`; if unset, chosen for the device.
pub(super) type Dtype = Option<Precision>;
/// `matmul_dtype`; if unset, chosen for the machine.
pub(super) type ProductsChoice = Option<Products>;
/// `memory_budget` in bytes; if unset, what the device has free.
pub(super) type Budget = Option<u64>;
/// `resume_from`; if unset, there must be no doubt.
pub(super) type OriginChoice = Option<ResumeFrom>;
/// A size whose 0 means another key's value; the getter resolves it.
pub(super) type Inherited = u32;
/// A number whose 0 means another key's value; the getter resolves it.
pub(super) type InheritedReal = f64;
/// `attention_bias`; if unset, the family's default.
pub(super) type BiasChoice = Option<AttentionBias>;

/// A type that a key resolves to.
pub(super) trait Setting: Sized {
    /// What a key of this type takes.
    const KIND: ValueKind;

    /// The typed value. `value` is of [`Self::KIND`] and in the key's range; `None` if it is not one
    /// of the choices.
    fn read(value: &ConfigValue) -> Option<Self>;

    /// The value that [`Self::read`] reads as `self`.
    fn write(&self) -> ConfigValue;
}

/// Converts the value to the kind of the key: an int to a float, `8.0` to `8`, 0 and 1 to a bool.
pub(super) fn of_kind(kind: ValueKind, value: ConfigValue) -> Option<ConfigValue> {
    match (kind, value) {
        (ValueKind::Int | ValueKind::Size, ConfigValue::Float(value)) => {
            integral(value).map(ConfigValue::Int)
        }
        (ValueKind::Float, ConfigValue::Int(value)) => Some(ConfigValue::Float(value as f64)),
        (ValueKind::Bool | ValueKind::BoolOr(_), ConfigValue::Int(value @ (0 | 1))) => {
            Some(ConfigValue::Bool(value == 1))
        }
        (ValueKind::ChoiceOrNone(_), ConfigValue::Str(text)) if text == "auto" => {
            Some(ConfigValue::None)
        }
        (kind, value) => {
            let is_taken = match kind {
                ValueKind::Int => matches!(value, ConfigValue::Int(_)),
                ValueKind::Float => matches!(value, ConfigValue::Float(_)),
                ValueKind::Bool => matches!(value, ConfigValue::Bool(_)),
                ValueKind::Text | ValueKind::Choice(_) | ValueKind::Device(_) => {
                    matches!(value, ConfigValue::Str(_))
                }
                ValueKind::ChoiceOrNone(_) => {
                    matches!(value, ConfigValue::Str(_) | ConfigValue::None)
                }
                ValueKind::BoolOr(_) => matches!(value, ConfigValue::Bool(_) | ConfigValue::Str(_)),
                ValueKind::Size => matches!(value, ConfigValue::Str(_) | ConfigValue::Int(_)),
            };
            is_taken.then_some(value)
        }
    }
}

/// A float without a fraction, if it is exact (at most 2^53).
fn integral(value: f64) -> Option<i64> {
    let is_one = value.fract() == 0.0 && value.abs() <= (1_i64 << 53) as f64;
    is_one.then_some(value as i64)
}

impl Setting for u32 {
    const KIND: ValueKind = ValueKind::Int;

    fn read(value: &ConfigValue) -> Option<Self> {
        let ConfigValue::Int(value) = value else { return None };
        Self::try_from(*value).ok()
    }

    fn write(&self) -> ConfigValue {
        (*self).into()
    }
}

impl Setting for u64 {
    const KIND: ValueKind = ValueKind::Int;

    fn read(value: &ConfigValue) -> Option<Self> {
        let ConfigValue::Int(value) = value else { return None };
        Self::try_from(*value).ok()
    }

    fn write(&self) -> ConfigValue {
        ConfigValue::Int(i64::try_from(*self).unwrap_or(i64::MAX)) // no key's range is larger
    }
}

impl Setting for f64 {
    const KIND: ValueKind = ValueKind::Float;

    fn read(value: &ConfigValue) -> Option<Self> {
        if let ConfigValue::Float(value) = value { Some(*value) } else { None }
    }

    fn write(&self) -> ConfigValue {
        (*self).into()
    }
}

impl Setting for bool {
    const KIND: ValueKind = ValueKind::Bool;

    fn read(value: &ConfigValue) -> Option<Self> {
        if let ConfigValue::Bool(value) = value { Some(*value) } else { None }
    }

    fn write(&self) -> ConfigValue {
        (*self).into()
    }
}

impl Setting for String {
    const KIND: ValueKind = ValueKind::Text;

    fn read(value: &ConfigValue) -> Option<Self> {
        text_of(value).map(str::to_owned)
    }

    fn write(&self) -> ConfigValue {
        self.as_str().into()
    }
}

impl Setting for Dtype {
    const KIND: ValueKind = ValueKind::ChoiceOrNone(Precision::NAMES);

    fn read(value: &ConfigValue) -> Option<Self> {
        if *value == ConfigValue::None {
            return Some(None);
        }
        Precision::parse(text_of(value)?).map(Some)
    }

    fn write(&self) -> ConfigValue {
        self.map_or(ConfigValue::None, |precision| precision.name().into())
    }
}

impl Setting for ProductsChoice {
    const KIND: ValueKind = ValueKind::ChoiceOrNone(Products::NAMES);

    fn read(value: &ConfigValue) -> Option<Self> {
        if *value == ConfigValue::None {
            return Some(None);
        }
        Products::parse(text_of(value)?).map(Some)
    }

    fn write(&self) -> ConfigValue {
        self.map_or(ConfigValue::None, |products| products.name().into())
    }
}

impl Setting for Budget {
    const KIND: ValueKind = ValueKind::Size;

    fn read(value: &ConfigValue) -> Option<Self> {
        if let ConfigValue::Int(bytes) = value {
            return u64::try_from(*bytes).ok().filter(|bytes| *bytes > 0).map(Some);
        }
        match text_of(value)?.trim() {
            "" => Some(None),
            text => size::parse(text).map(Some),
        }
    }

    fn write(&self) -> ConfigValue {
        self.map_or_else(|| "".into(), |bytes| size::text(bytes).into())
    }
}

impl Setting for BiasChoice {
    const KIND: ValueKind = ValueKind::ChoiceOrNone(AttentionBias::NAMES);

    fn read(value: &ConfigValue) -> Option<Self> {
        if *value == ConfigValue::None {
            return Some(None);
        }
        AttentionBias::parse(text_of(value)?).map(Some)
    }

    fn write(&self) -> ConfigValue {
        self.map_or(ConfigValue::None, |bias| bias.name().into())
    }
}

impl Setting for OriginChoice {
    const KIND: ValueKind = ValueKind::ChoiceOrNone(ResumeFrom::NAMES);

    fn read(value: &ConfigValue) -> Option<Self> {
        if *value == ConfigValue::None {
            return Some(None);
        }
        ResumeFrom::parse(text_of(value)?).map(Some)
    }

    fn write(&self) -> ConfigValue {
        self.map_or(ConfigValue::None, |origin| origin.name().into())
    }
}

impl Setting for RopeSetting {
    const KIND: ValueKind = ValueKind::Choice(Self::FORMS);

    fn read(value: &ConfigValue) -> Option<Self> {
        Self::parse(text_of(value)?)
    }

    fn write(&self) -> ConfigValue {
        ConfigValue::from(self.to_string())
    }
}

impl Setting for MuonCoefficients {
    const KIND: ValueKind = ValueKind::Choice(Self::FORMS);

    fn read(value: &ConfigValue) -> Option<Self> {
        Self::parse(text_of(value)?)
    }

    fn write(&self) -> ConfigValue {
        ConfigValue::from(self.to_string())
    }
}

/// Keys that take one of a type's names.
macro_rules! named_settings {
    ($($type:ident)*) => {$(
        impl Setting for $type {
            const KIND: ValueKind = ValueKind::Choice(Self::NAMES);

            fn read(value: &ConfigValue) -> Option<Self> {
                Self::parse(text_of(value)?)
            }

            fn write(&self) -> ConfigValue {
                self.name().into()
            }
        }
    )*};
}
named_settings!(Gelu Family OptimizerChoice AdjustLr MuonDtype InitFrom);

impl Setting for DeviceChoice {
    const KIND: ValueKind = ValueKind::Device(Self::NAMES);

    fn read(value: &ConfigValue) -> Option<Self> {
        Self::parse(text_of(value)?)
    }

    fn write(&self) -> ConfigValue {
        self.to_string().into()
    }
}

impl Setting for GradCheckpoint {
    const KIND: ValueKind = ValueKind::BoolOr(&["False", "True", "auto"]);

    fn read(value: &ConfigValue) -> Option<Self> {
        if let ConfigValue::Bool(is_on) = value {
            return Some(if *is_on { Self::Every } else { Self::Off });
        }
        (text_of(value)? == "auto").then_some(Self::Auto)
    }

    fn write(&self) -> ConfigValue {
        match self {
            Self::Off => false.into(),
            Self::Every => true.into(),
            Self::Auto => "auto".into(),
        }
    }
}

fn text_of(value: &ConfigValue) -> Option<&str> {
    if let ConfigValue::Str(text) = value { Some(text) } else { None }
}
