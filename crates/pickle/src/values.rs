//! Values of four bytes, and the tables that they point into.

use std::io::Read;

use crate::{PickleError, machine::Machine};

/// A value's place in its [`Pickle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle(u32);

/// A value, looked up.
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
    /// Items; tuples too.
    List(&'a [Handle]),
    /// Something we never need, by its Python name.
    Other(&'static str),
}

/// What a handle's upper three bits say.
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
/// Numbers up to here need no table.
const SMALL: i64 = 1 << INDEX_BITS;

/// Types that are named and not read.
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

/// A pickle, read.
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
    /// Reads protocols 0 to 5 out of bytes that hold nothing else.
    pub fn read(reader: impl Read) -> Result<Self, PickleError> {
        Self::read_some(reader, |_, _| true)
    }

    /// The same, but dicts that `keep` does not want are left empty: of a file with millions of
    /// entries only those stay that are read later. It is asked whenever entries were set.
    pub fn read_some(
        reader: impl Read,
        keep: impl FnMut(&Self, &[[Handle; 2]]) -> bool,
    ) -> Result<Self, PickleError> {
        Machine::new(reader, keep).run()
    }

    /// What the whole pickle is.
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

    /// The last value that a dict has under a text.
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
