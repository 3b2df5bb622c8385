//! Four-byte values and the tables that they index.

use crate::rows::Rows;

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
    /// A number with a fraction.
    Float(f64),
    /// A truth value.
    Bool(bool),
    /// A string.
    Text(&'a str),
    /// Keys and values, in the order they were set.
    Dict(&'a [[Handle; 2]]),
    /// The items of a list or tuple.
    List(&'a [Handle]),
    /// A value of another type, by its Python name.
    Other(&'static str),
    /// Something that Python would look up or call; only from [`Pickle::read_objects`].
    Object(PickleObject),
}

/// What Python would look up or call. Only described: nothing is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PickleObject {
    /// A class or function.
    Global {
        /// Its module, a text.
        module: Handle,
        /// Its name, a text.
        name: Handle,
    },
    /// The result of calling `function` with `arguments`.
    Call {
        /// A global.
        function: Handle,
        /// A tuple.
        arguments: Handle,
    },
    /// A reference to something outside of the pickle, by its id.
    Persistent(Handle),
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
    Float = 6,
    Object = 7,
}

const INDEX_BITS: u32 = 29;
/// Smaller non-negative integers are stored in the handle itself.
const SMALL: i64 = 1 << INDEX_BITS;

/// Types whose values are not kept.
const OTHERS: [&str; 4] = ["None", "bytes", "set", "frozenset"];
/// Indices after [`OTHERS`]: an integer beyond 64 bits, `False` and `True`.
const BIG_INT: usize = OTHERS.len();
const FALSE: usize = BIG_INT + 1;
const TRUE: usize = BIG_INT + 2;

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

/// How many values, marks and operands are allowed for each allowed list or dict: more than any
/// real file has.
pub(crate) const VALUES_PER_CONTAINER: usize = 4;

/// A parsed pickle.
#[derive(Debug, Default)]
pub struct Pickle {
    pub(crate) root: Option<Handle>,
    /// How many more lists and dicts may be added. One byte of input can create one, which takes
    /// dozens of bytes.
    containers_left: usize,
    /// How many more numbers, texts and objects may be added. Two bytes of input can create one,
    /// which takes a dozen.
    values_left: usize,
    ints: Vec<i64>,
    texts: String,
    ends: Vec<usize>, // of each text
    dicts: Rows<[Handle; 2]>,
    lists: Rows<Handle>,
    floats: Vec<f64>,
    objects: Vec<PickleObject>,
}

impl Pickle {
    pub(crate) fn new(containers: usize) -> Self {
        let values_left = containers.saturating_mul(VALUES_PER_CONTAINER);
        Self { containers_left: containers, values_left, ..Self::default() }
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
            3 => PickleValue::Dict(self.dicts.get(index)),
            4 => PickleValue::List(self.lists.get(index)),
            6 => PickleValue::Float(self.floats[index]),
            7 => PickleValue::Object(self.objects[index]),
            _ if index == BIG_INT => PickleValue::BigInt,
            _ if index == FALSE || index == TRUE => PickleValue::Bool(index == TRUE),
            _ => PickleValue::Other(OTHERS.get(index).copied().unwrap_or(OTHERS[0])),
        }
    }

    /// The last value of a dict under a string key.
    pub fn get(&self, dict: &[[Handle; 2]], key: &str) -> Option<PickleValue<'_>> {
        self.get_handle(dict, key).map(|value| self.value(value))
    }

    /// A reference to the last value of a dict under a string key.
    pub fn get_handle(&self, dict: &[[Handle; 2]], key: &str) -> Option<Handle> {
        let is_wanted = |pair: &&[Handle; 2]| matches!(self.value(pair[0]), PickleValue::Text(text) if text == key);
        dict.iter().rfind(is_wanted).map(|[_, value]| *value)
    }

    pub(crate) fn add_int(&mut self, value: i64) -> Option<Handle> {
        if (0..SMALL).contains(&value) {
            return Handle::new(Tag::SmallInt, value as usize);
        }
        self.values_left = self.values_left.checked_sub(1)?;
        self.ints.push(value);
        Handle::new(Tag::Int, self.ints.len() - 1)
    }

    pub(crate) fn add_text(&mut self, text: &str) -> Option<Handle> {
        self.values_left = self.values_left.checked_sub(1)?;
        self.texts.push_str(text);
        self.ends.push(self.texts.len());
        Handle::new(Tag::Text, self.ends.len() - 1)
    }

    pub(crate) fn add_list(&mut self, items: &[Handle]) -> Option<Handle> {
        self.containers_left = self.containers_left.checked_sub(1)?;
        let index = self.lists.push();
        self.lists.extend(index, items)?;
        Handle::new(Tag::List, index)
    }

    pub(crate) fn add_dict(&mut self) -> Option<Handle> {
        self.containers_left = self.containers_left.checked_sub(1)?;
        Handle::new(Tag::Dict, self.dicts.push())
    }

    pub(crate) fn add_float(&mut self, value: f64) -> Option<Handle> {
        self.values_left = self.values_left.checked_sub(1)?;
        self.floats.push(value);
        Handle::new(Tag::Float, self.floats.len() - 1)
    }

    pub(crate) fn add_object(&mut self, object: PickleObject) -> Option<Handle> {
        self.values_left = self.values_left.checked_sub(1)?;
        self.objects.push(object);
        Handle::new(Tag::Object, self.objects.len() - 1)
    }

    pub(crate) fn big_int() -> Handle {
        Handle((Tag::Other as u32) << INDEX_BITS | BIG_INT as u32)
    }

    pub(crate) fn bool(value: bool) -> Handle {
        let index = if value { TRUE } else { FALSE };
        Handle((Tag::Other as u32) << INDEX_BITS | index as u32)
    }

    pub(crate) fn other(name: &'static str) -> Handle {
        let index = OTHERS.iter().position(|other| *other == name).unwrap_or(0);
        Handle((Tag::Other as u32) << INDEX_BITS | index as u32)
    }

    /// Appends to a list; `None` if there are too many items.
    pub(crate) fn extend_list(&mut self, list: Handle, items: &[Handle]) -> Option<()> {
        self.lists.extend(list.index(), items)
    }

    /// Sets entries of a dict; `None` if there are too many.
    pub(crate) fn extend_dict(&mut self, dict: Handle, pairs: &[[Handle; 2]]) -> Option<()> {
        self.dicts.extend(dict.index(), pairs)
    }
}
