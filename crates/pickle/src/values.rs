//! Four-byte values and the tables that they index.

use std::io::Read;

use crate::{PickleError, machine::Machine};

/// A reference to a value in its [`Pickle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(u32);

/// A value of a pickle.
#[derive(Clone, Copy, Debug)]
pub enum PickleValue<'a> {
    /// An integer of up to 64 bits.
    Int(i64),
    /// An integer beyond 64 bits.
    BigInt,
    /// A string.
    Text(&'a str),
    /// Keys and values, in the order they were set.
    Dict(&'a [[Handle; 2]]),
    /// The items of a list or tuple.
    List(&'a [Handle]),
    /// A value of another type, by its Python name.
    Other(&'static str),
}

/// The upper three bits of a handle.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tag {
    SmallInt = 0,
    Int = 1,
    Text = 2,
    Dict = 3,
    List = 4,
    Other = 5,
}

const INDEX_BITS: u32 = 29;
/// Smaller non-negative integers are stored in the handle itself.
const SMALL: i64 = 1 << INDEX_BITS;

/// Types whose values are not kept.
const OTHERS: [&str; 7] = ["None", "bool", "float", "bytes", "set", "frozenset", "int"];

impl Handle {
    fn new(tag: Tag, index: usize) -> Option<Self> {
        let index = u32::try_from(index).ok().filter(|index| *index < 1 << INDEX_BITS)?;
        Some(Self((tag as u32) << INDEX_BITS | index))
    }

    fn index(self) -> usize {
        (self.0 & ((1 << INDEX_BITS) - 1)) as usize
    }

    pub(crate) fn is(self, tag: Tag) -> bool {
        self.0 >> INDEX_BITS == tag as u32
    }
}

/// A parsed pickle.
#[derive(Debug, Default)]
pub struct Pickle {
    pub(crate) root: Option<Handle>,
    ints: Vec<i64>,
    texts: String,
    ends: Vec<usize>, // of each text
    dicts: Vec<Vec<[Handle; 2]>>,
    lists: Vec<Vec<Handle>>,
}

impl Pickle {
    /// Reads a pickle of protocol 0 to 5.
    pub fn read(reader: impl Read) -> Result<Self, PickleError> {
        Self::read_some(reader, |_, _| true)
    }

    /// Like [`Pickle::read`], but drops dict entries for which `keep` returns false, so that a file
    /// with millions of dicts needs memory only for the wanted ones. `keep` is called whenever
    /// entries are set.
    pub fn read_some(
        reader: impl Read,
        keep: impl FnMut(&Self, &[[Handle; 2]]) -> bool,
    ) -> Result<Self, PickleError> {
        Machine::new(reader, keep).run()
    }

    /// The top-level value.
    pub fn root(&self) -> PickleValue<'_> {
        self.root.map_or(PickleValue::Other(OTHERS[0]), |root| self.value(root))
    }

    /// Looks a value up.
    pub fn value(&self, handle: Handle) -> PickleValue<'_> {
        let index = handle.index();
        match handle.0 >> INDEX_BITS {
            0 => PickleValue::Int(index as i64),
            1 => PickleValue::Int(self.ints[index]),
            2 => {
                let start = index.checked_sub(1).map_or(0, |before| self.ends[before]);
                PickleValue::Text(&self.texts[start..self.ends[index]])
            }
            3 => PickleValue::Dict(&self.dicts[index]),
            4 => PickleValue::List(&self.lists[index]),
            _ if index == OTHERS.len() => PickleValue::BigInt,
            _ => PickleValue::Other(OTHERS.get(index).copied().unwrap_or(OTHERS[0])),
        }
    }

    /// The last value of a dict under a string key.
    pub fn get(&self, dict: &[[Handle; 2]], key: &str) -> Option<PickleValue<'_>> {
        let is_wanted = |pair: &&[Handle; 2]| matches!(self.value(pair[0]), PickleValue::Text(text) if text == key);
        dict.iter().rfind(is_wanted).map(|[_, value]| self.value(*value))
    }

    pub(crate) fn add_int(&mut self, value: i64) -> Option<Handle> {
        if (0..SMALL).contains(&value) {
            return Handle::new(Tag::SmallInt, value as usize);
        }
        self.ints.push(value);
        Handle::new(Tag::Int, self.ints.len() - 1)
    }

    pub(crate) fn add_text(&mut self, text: &str) -> Option<Handle> {
        self.texts.push_str(text);
        self.ends.push(self.texts.len());
        Handle::new(Tag::Text, self.ends.len() - 1)
    }

    pub(crate) fn add_list(&mut self, items: Vec<Handle>) -> Option<Handle> {
        self.lists.push(items);
        Handle::new(Tag::List, self.lists.len() - 1)
    }

    pub(crate) fn add_dict(&mut self) -> Option<Handle> {
        self.dicts.push(Vec::new());
        Handle::new(Tag::Dict, self.dicts.len() - 1)
    }

    pub(crate) fn big_int() -> Handle {
        Handle((Tag::Other as u32) << INDEX_BITS | OTHERS.len() as u32)
    }

    pub(crate) fn other(name: &'static str) -> Handle {
        let index = OTHERS.iter().position(|other| *other == name).unwrap_or(0);
        Handle((Tag::Other as u32) << INDEX_BITS | index as u32)
    }

    pub(crate) fn list_mut(&mut self, handle: Handle) -> Option<&mut Vec<Handle>> {
        handle.is(Tag::List).then(|| &mut self.lists[handle.index()])
    }

    pub(crate) fn dict_mut(&mut self, handle: Handle) -> Option<&mut Vec<[Handle; 2]>> {
        handle.is(Tag::Dict).then(|| &mut self.dicts[handle.index()])
    }
}
