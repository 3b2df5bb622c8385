//! What was written: files, overrides and pairs, each value with its location. Later wins.

use std::{
    borrow::Cow,
    collections::{BTreeMap, BTreeSet},
};

use super::{
    error::{ConfigError, Location},
    key::{Key, KeyGroup, ValueKind},
    keys::KEYS,
    optimizer::OptimizerChoice,
    python::{self, MachineFacts, PythonError, Reason, Scope, TextPosition},
    setting::of_kind,
    value::{ConfigValue, excerpt},
};

/// The values as written. Only the kind of each value is checked;
/// [`resolve`](Self::resolve) fills in the defaults and checks the rules.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Written {
    entries: BTreeMap<&'static str, WrittenValue>,
    unknown: Vec<UnknownValue>,
    /// Keys that the weights determine, and nobody wrote.
    of_weights: BTreeSet<&'static str>,
}

/// A label whose value cannot be known without running Python. It counts as not written.
#[derive(Clone, Debug, PartialEq)]
pub struct UnknownValue {
    /// The key.
    pub key: &'static str,
    /// Where the file assigns it.
    pub place: Location,
    /// Why it has no value.
    pub reason: Reason,
}

#[derive(Clone, Debug, PartialEq)]
struct WrittenValue {
    value: ConfigValue,
    place: Location,
    order: usize, // larger for later writes
}

impl Written {
    /// Without any value.
    pub fn new() -> Self {
        Self::default()
    }

    /// Reads a config file in nanoGPT's Python. On an error nothing changes.
    ///
    /// As in nanoGPT, an expression sees the keys written so far, or their defaults. A name
    /// that is not a key is allowed if a later expression of the file uses it. A label whose
    /// expression cannot be evaluated stays unwritten ([`unknown`](Self::unknown)).
    pub fn read_python(
        &mut self,
        source: &str,
        text: &str,
        facts: &MachineFacts,
    ) -> Result<(), ConfigError> {
        let place = |position: TextPosition| Location {
            source: source.to_owned(),
            line: Some(position.line),
            column: Some(position.column),
        };
        let refused = |PythonError { position, reason }| ConfigError::Python {
            place: place(position),
            reason,
        };
        let assignments = python::parse_file(text).map_err(refused)?;

        let mut last_use: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, assignment) in assignments.iter().enumerate() {
            assignment.value.for_each_name(&mut |name| {
                // `x = x + 1` does not count as a use of `x`.
                if assignment.targets.iter().all(|(target, _)| target != name) {
                    last_use.insert(name, index);
                }
            });
        }

        let mut locals: BTreeMap<&str, (ConfigValue, TextPosition)> = BTreeMap::new();
        let mut unknown: BTreeMap<&str, (PythonError, TextPosition)> = BTreeMap::new();
        for (index, assignment) in assignments.iter().enumerate() {
            let names = |name: &str| match locals.get(name) {
                Some((value, _)) => Some(value.clone()),
                None if unknown.contains_key(name) => None,
                None => self.visible(name, facts),
            };
            let scope = Scope { names: &names, facts: Some(facts) };
            let value = assignment.value.evaluate(&scope).map_err(|error| {
                // Report why the name has no value.
                let Reason::UnknownName { name } = &error.reason else { return error };
                let origin = unknown.get(name.as_str()).map(|(origin, _)| origin.clone());
                origin.unwrap_or(error)
            });
            let is_free = assignment.targets.iter().all(|(name, _)| python::is_free(name));
            let value = match value {
                Err(error) if !is_free => return Err(refused(error)),
                other => other,
            };
            for (name, position) in &assignment.targets {
                let is_used = last_use.get(name.as_str()).is_some_and(|last| *last > index);
                let is_new =
                    !locals.contains_key(name.as_str()) && !unknown.contains_key(name.as_str());
                if Key::find(name).is_none() && !is_used && is_new {
                    return Err(unknown_key(name, place(*position)));
                }
                match &value {
                    Ok(value) => {
                        unknown.remove(name.as_str());
                        locals.insert(name, (value.clone(), *position));
                    }
                    Err(error) => {
                        locals.remove(name.as_str());
                        unknown.insert(name, (error.clone(), *position));
                    }
                }
            }
        }

        let mut locals: Vec<_> = locals.into_iter().collect();
        locals.sort_by_key(|(_, (_, position))| *position);
        let mut read = Self::new();
        for (name, (value, position)) in locals {
            if Key::find(name).is_some() {
                read.write(name, value, place(position))?;
            }
        }
        for (name, (error, position)) in unknown {
            if let Some(key) = Key::find(name) {
                let (place, reason) = (place(position), error.reason);
                read.unknown.push(UnknownValue { key: key.name, place, reason });
            }
        }
        self.merge(read);
        Ok(())
    }

    /// Labels with an unknown value, unless a later source has set them.
    pub fn unknown(&self) -> &[UnknownValue] {
        &self.unknown
    }

    /// An override of the command line, `--key=text`.
    ///
    /// A number may be an expression (`5*8`, `1e-3`, `max_iters // 10`), a bool is `True`,
    /// `true`, `1` or the opposite; quotes around a string are optional.
    pub fn set(&mut self, key: &str, text: &str) -> Result<(), ConfigError> {
        let place = Location::command_line();
        let Some(found) = Key::find(key) else { return Err(unknown_key(key, place)) };
        let value = match found.kind {
            ValueKind::Bool => boolean(text.trim()),
            ValueKind::Int | ValueKind::Float => self.number(found, text)?,
            ValueKind::BoolOr(_) => {
                boolean(text.trim()).or_else(|| Some(self.unquoted(text.trim()).into()))
            }
            ValueKind::ChoiceOrNone(_) if text.trim() == "None" => Some(ConfigValue::None),
            ValueKind::Text => Some(self.unquoted(text).into()),
            ValueKind::Choice(_)
            | ValueKind::ChoiceOrNone(_)
            | ValueKind::Device(_)
            | ValueKind::Size => Some(self.unquoted(text.trim()).into()),
        };
        match value {
            Some(value) => self.write(found.name, value, place),
            None => Err(wrong_kind(found, text, place)),
        }
    }

    /// Writes one value.
    pub fn write(
        &mut self,
        key: &str,
        value: ConfigValue,
        place: Location,
    ) -> Result<(), ConfigError> {
        let Some(key) = Key::find(key) else { return Err(unknown_key(key, place)) };
        let shown = value.to_string();
        let Some(value) = of_kind(key.kind, value) else {
            return Err(wrong_kind(key, &shown, place));
        };
        let order = self.next_order();
        self.unknown.retain(|unknown| unknown.key != key.name);
        self.of_weights.remove(key.name);
        self.entries.insert(key.name, WrittenValue { value, place, order });
        Ok(())
    }

    /// The pairs of a map, such as a checkpoint's `config`. `source` names them in errors.
    pub fn from_pairs<K: AsRef<str>>(
        source: &str,
        pairs: impl IntoIterator<Item = (K, ConfigValue)>,
    ) -> Result<Self, ConfigError> {
        let mut written = Self::new();
        for (key, value) in pairs {
            written.write(key.as_ref(), value, Location::of(source))?;
        }
        Ok(written)
    }

    /// Adds the values of `later`, which override earlier ones.
    pub fn merge(&mut self, later: Self) {
        let first = self.next_order();
        self.unknown.retain(|unknown| !later.entries.contains_key(unknown.key));
        self.unknown.extend(later.unknown);
        self.of_weights.retain(|key| !later.entries.contains_key(key));
        self.of_weights.extend(later.of_weights);
        let later = later.entries.into_iter();
        self.entries.extend(later.map(|(key, entry)| {
            let order = first + entry.order;
            (key, WrittenValue { order, ..entry })
        }));
    }

    /// Adds what the weights determine, described by `source`. Such values override what was written,
    /// and are no part of [`asked_for`](Self::asked_for) unless they were written before.
    pub fn add_of_weights<K: AsRef<str>>(
        &mut self,
        source: &str,
        pairs: impl IntoIterator<Item = (K, ConfigValue)>,
    ) -> Result<(), ConfigError> {
        let weights = Self::from_pairs(source, pairs)?;
        let new = weights.entries.keys().filter(|key| !self.entries.contains_key(*key));
        let new: Vec<_> = new.copied().chain(self.of_weights.iter().copied()).collect();
        self.merge(weights);
        self.of_weights.extend(new);
        Ok(())
    }

    /// Everything that somebody wrote, in the order of the table of keys: not what only the weights
    /// determine.
    pub fn asked_for(&self) -> impl Iterator<Item = (&'static Key, &ConfigValue, &Location)> {
        self.iter().filter(|(key, ..)| !self.of_weights.contains(key.name))
    }

    /// The value that was written for a key.
    pub fn get(&self, key: &str) -> Option<&ConfigValue> {
        self.entries.get(key).map(|entry| &entry.value)
    }

    /// Where a key's value was written.
    pub fn place_of(&self, key: &str) -> Option<&Location> {
        self.entries.get(key).map(|entry| &entry.place)
    }

    /// Everything that was written, in the order of the table of keys.
    pub fn iter(&self) -> impl Iterator<Item = (&'static Key, &ConfigValue, &Location)> {
        KEYS.iter().filter_map(|key| {
            self.entries.get(key.name).map(|entry| (key, &entry.value, &entry.place))
        })
    }

    /// Keys that were changed from their default but have no effect in this program.
    pub fn ignored(&self) -> Vec<&'static str> {
        self.iter()
            .filter(|(key, value, _)| key.group == KeyGroup::Ignored && key.default != **value)
            .map(|(key, _, _)| key.name)
            .collect()
    }

    /// Where the last of these keys was written.
    pub(super) fn last_place(&self, keys: &[&str]) -> Location {
        let entries = keys.iter().filter_map(|key| self.entries.get(key));
        let last = entries.max_by_key(|entry| entry.order);
        last.map_or_else(Location::default_value, |entry| entry.place.clone())
    }

    fn next_order(&self) -> usize {
        self.entries.values().map(|entry| entry.order + 1).max().unwrap_or(0)
    }

    /// The written value or the default, and its place.
    pub(super) fn value_of(&self, key: &'static Key) -> (&ConfigValue, Cow<'_, Location>) {
        match self.entries.get(key.name) {
            Some(entry) => (&entry.value, Cow::Borrowed(&entry.place)),
            None => (self.default_of(key), Cow::Owned(Location::default_value())),
        }
    }

    /// What a key is if it is not written: an optimizer may have defaults of its own.
    fn default_of(&self, key: &'static Key) -> &'static ConfigValue {
        let own = match self.get("optimizer") {
            Some(ConfigValue::Str(name)) => OptimizerChoice::parse(name),
            _ => None,
        };
        let own = own.map_or(&[][..], OptimizerChoice::defaults);
        own.iter().find(|(name, _)| *name == key.name).map_or(&key.default, |(_, value)| value)
    }

    /// A key as a file's expressions see it.
    fn visible(&self, name: &str, facts: &MachineFacts) -> Option<ConfigValue> {
        let value = self.value_of(Key::find(name)?).0;
        if *value == ConfigValue::None && name == "dtype" {
            // nanoGPT's default depends on the machine.
            let has_bf16 = facts.cuda_is_available && facts.bf16_is_supported;
            return Some(if has_bf16 { "bfloat16" } else { "float16" }.into());
        }
        Some(value.clone())
    }

    /// `None` if the text is not an expression; an error if it is one without a value.
    fn number(&self, key: &Key, text: &str) -> Result<Option<ConfigValue>, ConfigError> {
        match self.expression(text) {
            Ok(value) => Ok(Some(value)),
            Err(reason @ (Reason::DivisionByZero | Reason::Overflow | Reason::TooDeep { .. })) => {
                // The reason does not name the key.
                let place = Location::of(format!("command line, `--{}`", key.name));
                Err(ConfigError::Python { place, reason })
            }
            Err(_) => Ok(None),
        }
    }

    /// A string's text, without quotes if they are valid Python.
    fn unquoted(&self, text: &str) -> String {
        if text.starts_with(['\'', '"'])
            && let Ok(ConfigValue::Str(inner)) = self.expression(text)
        {
            return inner.into_owned();
        }
        text.to_owned()
    }

    fn expression(&self, text: &str) -> Result<ConfigValue, Reason> {
        let names = |name: &str| Key::find(name).map(|key| self.value_of(key).0.clone());
        let scope = Scope { names: &names, facts: None };
        python::parse_expression(text.trim())
            .and_then(|parsed| parsed.evaluate(&scope))
            .map_err(|refusal| refusal.reason)
    }
}

fn boolean(text: &str) -> Option<ConfigValue> {
    match text {
        "True" | "true" | "1" => Some(true.into()),
        "False" | "false" | "0" => Some(false.into()),
        _ => None,
    }
}

fn unknown_key(key: &str, place: Location) -> ConfigError {
    let nearest = Key::nearest(key).map(|key| key.name);
    ConfigError::UnknownKey { key: excerpt(key), nearest, place }
}

fn wrong_kind(key: &'static Key, value: &str, place: Location) -> ConfigError {
    let value = excerpt(value);
    ConfigError::WrongKind { key: key.name, value, expected: key.kind, place }
}
