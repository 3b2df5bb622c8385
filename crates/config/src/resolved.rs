//! The resolved config: every key set, every rule checked.

use fitgpt_program::{AdjustLr, Gelu};
use serde::{Serialize, Serializer, ser::SerializeMap as _};

use super::{
    choice::{DeviceChoice, Family, GradCheckpoint, InitFrom, Precision, RopeSetting},
    error::{ConfigError, Location},
    key::{Key, KeyGroup, ValueKind},
    keys::{KEYS, key_table},
    optimizer::{MuonCoefficients, MuonDtype, OptimizerChoice},
    setting::{
        BiasChoice, Budget, Dtype, Inherited, InheritedReal, OriginChoice, ProductsChoice, Setting,
    },
    value::{ConfigValue, excerpt},
    written::Written,
};

/// The getter of a key: strings borrowed, numbers by value. Keys whose 0 means the value of another
/// key have a hand-written getter instead.
macro_rules! getter {
    (String $name:ident $help:literal) => {
        #[doc = $help]
        pub fn $name(&self) -> &str {
            &self.$name
        }
    };
    (InitFrom $name:ident $help:literal) => {
        #[doc = $help]
        pub fn $name(&self) -> &InitFrom {
            &self.$name
        }
    };
    (Inherited $name:ident $help:literal) => {};
    (InheritedReal $name:ident $help:literal) => {};
    ($type:ident $name:ident $help:literal) => {
        #[doc = $help]
        pub fn $name(&self) -> $type {
            self.$name
        }
    };
}

macro_rules! config {
    ($($group:ident $name:ident: $type:ident = $default:expr, $range:expr, $help:literal;)*) => {
        /// A config in which every key has a value and every rule holds. Only
        /// [`Written::resolve`] makes one.
        ///
        /// Serialises as a flat map with nanoGPT's names and types, plus an object `model`.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Config {
            $($name: $type,)*
        }

        #[expect(clippy::doc_markdown, reason = "the table's help is written for a terminal")]
        impl Config {
            $(getter! { $type $name $help })*

            /// Every key and its value, in the order of [`KEYS`].
            pub fn pairs(&self) -> Vec<(&'static str, ConfigValue)> {
                vec![$((stringify!($name), Setting::write(&self.$name)),)*]
            }

            /// Fills in the defaults, without a check of rules between keys.
            pub(super) fn from_written(written: &Written) -> Result<Self, ConfigError> {
                let mut keys = KEYS.iter();
                Ok(Self { $($name: next(&mut keys, written)?,)* })
            }
        }
    };
}
key_table!(config);

/// Fields are in the table's order.
fn next<T: Setting>(
    keys: &mut impl Iterator<Item = &'static Key>,
    written: &Written,
) -> Result<T, ConfigError> {
    let key = keys.next().expect("a field has a row in the table");
    let (value, place) = written.value_of(key);
    typed(key, value, &place)
}

/// The typed value of `key`.
fn typed<T: Setting>(
    key: &'static Key,
    value: &ConfigValue,
    place: &Location,
) -> Result<T, ConfigError> {
    let name = key.name;
    let written = || {
        if let ConfigValue::Str(text) = value { excerpt(text) } else { value.to_string() }
    };
    if !key.range.holds(value) {
        let (value, range) = (written(), key.range);
        return Err(ConfigError::OutOfRange { key: name, value, range, place: place.clone() });
    }
    T::read(value).ok_or_else(|| {
        let (value, place) = (written(), place.clone());
        match key.kind {
            ValueKind::Choice(choices)
            | ValueKind::ChoiceOrNone(choices)
            | ValueKind::BoolOr(choices)
            | ValueKind::Device(choices) => {
                ConfigError::NotAChoice { key: name, value, choices, place }
            }
            ValueKind::Size => ConfigError::NotASize { key: name, value, place },
            expected @ (ValueKind::Int | ValueKind::Float | ValueKind::Bool | ValueKind::Text) => {
                ConfigError::WrongKind { key: name, value, expected, place }
            }
        }
    })
}

/// The inner width of an MLP if a config has none: two thirds of four times the width, because a
/// gated MLP has three matrices instead of two, rounded up to a multiple of 256, as in Llama's code.
fn llama_mlp_channels(channels: u32) -> u32 {
    let exact = u64::from(channels) * 8 / 3;
    u32::try_from(exact.next_multiple_of(256)).unwrap_or(u32::MAX)
}

/// Muon's default learning rate, as in its author's code and in `torch.optim.Muon`'s example.
const MUON_LEARNING_RATE: f64 = 0.02;

/// The sequences and tokens of one step, however it is split into micro-batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct EffectiveBatch {
    /// `batch_size` × `gradient_accumulation_steps`.
    pub sequences: u64,
    /// Sequences × `block_size`.
    pub tokens: u64,
}

impl Config {
    /// The sequences and tokens of one step.
    pub fn effective_batch(&self) -> EffectiveBatch {
        let sequences = u64::from(self.batch_size) * u64::from(self.gradient_accumulation_steps);
        // `rules::check` has checked this product.
        EffectiveBatch { sequences, tokens: sequences * u64::from(self.block_size) }
    }

    /// Key/value heads in a block.
    pub fn n_kv_head(&self) -> u32 {
        if self.n_kv_head == 0 { self.n_head } else { self.n_kv_head }
    }

    /// Channels of a head.
    pub fn head_dim(&self) -> u32 {
        if self.head_dim == 0 { self.n_embd / self.n_head } else { self.head_dim }
    }

    /// Inner width of the MLP.
    pub fn ffn_dim(&self) -> u32 {
        match (self.ffn_dim, self.family) {
            (0, Family::Gpt2) => self.n_embd.saturating_mul(4),
            (0, _) => llama_mlp_channels(self.n_embd),
            (written, _) => written,
        }
    }

    /// What a normalisation adds to the variance.
    pub fn norm_eps(&self) -> f64 {
        if self.norm_eps == 0.0 { self.family.default_epsilon() } else { self.norm_eps }
    }

    /// Muon's highest learning rate.
    pub fn muon_learning_rate(&self) -> f64 {
        match (self.muon_learning_rate, self.muon_adjust_lr) {
            // Updates are as large as AdamW's, so its learning rate applies.
            (0.0, AdjustLr::MatchRmsAdamW) => self.learning_rate,
            (0.0, _) => MUON_LEARNING_RATE,
            (written, _) => written,
        }
    }

    /// Sequences in an evaluated batch.
    pub fn eval_batch_size(&self) -> u32 {
        if self.eval_batch_size == 0 { self.batch_size } else { self.eval_batch_size }
    }

    /// Tokens in an evaluated sequence.
    pub fn eval_block_size(&self) -> u32 {
        if self.eval_block_size == 0 { self.block_size } else { self.eval_block_size }
    }

    /// The `dtype` that was written, or what suits the device.
    pub fn precision_or(&self, default: Precision) -> Precision {
        self.dtype.unwrap_or(default)
    }

    /// The same config with some keys changed, checked again. `source` names the change in
    /// errors.
    ///
    /// An `eval_batch_size` of 0 follows a changed `batch_size`. To keep the evaluation, set it
    /// explicitly.
    pub fn with<'a>(
        &self,
        source: &str,
        changes: impl IntoIterator<Item = (&'a str, ConfigValue)>,
    ) -> Result<Self, ConfigError> {
        let mut written = Written::from_pairs("config", self.pairs())?;
        written.merge(Written::from_pairs(source, changes)?);
        written.resolve()
    }

    /// A config file that reads back as `self`, with the types that nanoGPT checks.
    ///
    /// All of nanoGPT's keys are written, so that it runs the same training, except `device` and
    /// `dtype` if none was chosen, because nanoGPT has no 'auto'. Other keys are written if they
    /// differ from their defaults.
    pub fn to_python(&self) -> String {
        let mut text = String::new();
        let mut group = None;
        for (key, (_, value)) in KEYS.iter().zip(self.pairs()) {
            let is_default = value == key.default;
            if is_default && (!key.is_nanogpt() || matches!(key.name, "device" | "dtype")) {
                continue;
            }
            if !key.is_nanogpt() && group != Some(key.group) {
                text.push_str(match key.group {
                    KeyGroup::Sampling => "\n# sampling\n",
                    KeyGroup::NanoGpt | KeyGroup::Ignored | KeyGroup::FitGpt => {
                        "\n# keys of FitGPT that nanoGPT does not have\n"
                    }
                });
                group = Some(key.group);
            }
            text.extend([key.name, " = ", &value.to_string(), "\n"]);
        }
        text
    }
}

impl Default for Config {
    /// nanoGPT's defaults.
    fn default() -> Self {
        Written::new().resolve().expect("the defaults satisfy the rules")
    }
}

/// The model that a config describes, every size resolved.
#[derive(Serialize)]
struct ModelSummary {
    family: &'static str,
    n_layer: u32,
    n_head: u32,
    n_kv_head: u32,
    head_dim: u32,
    n_embd: u32,
    ffn_dim: u32,
}

impl Serialize for Config {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let pairs = self.pairs();
        let mut map = serializer.serialize_map(Some(pairs.len() + 1))?;
        for (key, value) in &pairs {
            map.serialize_entry(key, value)?;
        }
        let model = ModelSummary {
            family: self.family.name(),
            n_layer: self.n_layer,
            n_head: self.n_head,
            n_kv_head: self.n_kv_head(),
            head_dim: self.head_dim(),
            n_embd: self.n_embd,
            ffn_dim: self.ffn_dim(),
        };
        map.serialize_entry("model", &model)?;
        map.end()
    }
}
