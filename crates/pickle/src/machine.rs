//! The stack machine, limited to opcodes that create plain data.

use std::{collections::BTreeMap, io::Read};

use crate::{
    PickleError,
    input::ByteStream,
    values::{Handle, Pickle, PickleObject, PickleValue, Tag, VALUES_PER_CONTAINER},
};

pub(crate) struct StackMachine<R, K> {
    input: ByteStream<R>,
    keep: K,
    /// Which globals may be described; `None`: no objects at all.
    allows: Option<fn(&str, &str) -> bool>,
    opcode_at: usize,
    /// How many operands, marks or memoized values may be held at a time.
    limit: usize,
    stack: Vec<Handle>,
    marks: Vec<usize>,                  // stack heights
    memo: Vec<Handle>,                  // keys from 0 on without a gap, as Python writes them
    sparse_memo: BTreeMap<u64, Handle>, // other keys
    pickle: Pickle,
    bytes: Vec<u8>, // of the value that is being read
}

impl<R: Read, K: FnMut(&Pickle, &[[Handle; 2]]) -> bool> StackMachine<R, K> {
    pub(crate) fn new(
        reader: R,
        containers: usize,
        keep: K,
        allows: Option<fn(&str, &str) -> bool>,
    ) -> Self {
        Self {
            input: ByteStream::new(reader),
            keep,
            allows,
            opcode_at: 0,
            limit: containers.saturating_mul(VALUES_PER_CONTAINER),
            stack: Vec::new(),
            marks: Vec::new(),
            memo: Vec::new(),
            sparse_memo: BTreeMap::new(),
            pickle: Pickle::new(containers),
            bytes: Vec::new(),
        }
    }

    /// Runs to the end mark; the top of the stack is the result.
    pub(crate) fn run(mut self) -> Result<Pickle, PickleError> {
        let root = loop {
            self.opcode_at = self.input.position();
            let opcode = self.input.byte()?;
            if opcode == b'.' {
                break self.pop()?;
            }
            self.step(opcode)?;
            let held = self.stack.len().max(self.marks.len());
            if held.max(self.memo.len() + self.sparse_memo.len()) > self.limit {
                return Err(PickleError::TooLarge { offset: self.opcode_at });
            }
        };
        self.pickle.root = Some(root);
        match self.input.rest()? {
            0 => Ok(self.pickle),
            extra => Err(PickleError::Trailing { extra }),
        }
    }

    fn step(&mut self, opcode: u8) -> Result<(), PickleError> {
        match opcode {
            0x80 => self.input.skip(1)?, // PROTO: not needed
            0x95 => self.input.skip(8)?, // FRAME: a hint for buffering

            b'(' => self.marks.push(self.stack.len()),
            b'0' => self.pop_any()?,
            // POP_MARK, or ADDITEMS to a set, whose items are not needed.
            b'1' | 0x90 => drop(self.pop_mark()?),
            b'2' => {
                let top = self.top()?;
                self.stack.push(top);
            }

            b'p' => {
                let key = self.parsed_line()?;
                self.memoize(key)?;
            }
            b'q' => self.memoize_sized(1)?,
            b'r' => self.memoize_sized(4)?,
            0x94 => {
                let key = (self.memo.len() + self.sparse_memo.len()) as u64;
                self.memoize(key)?;
            }
            b'g' => {
                let key = self.parsed_line()?;
                self.recall(key)?;
            }
            b'h' => self.recall_sized(1)?,
            b'j' => self.recall_sized(4)?,

            b'N' => self.stack.push(Pickle::other("None")),
            0x88 | 0x89 => self.stack.push(Pickle::bool(opcode == 0x88)),
            b'I' | b'L' => self.text_int()?,
            b'J' => {
                let value = self.input.unsigned(4)? as u32 as i32;
                self.int(value.into())?;
            }
            b'K' => {
                let value = self.input.unsigned(1)?;
                self.int(value as i64)?;
            }
            b'M' => {
                let value = self.input.unsigned(2)?;
                self.int(value as i64)?;
            }
            0x8a => self.long(1)?,
            0x8b => self.long(4)?,
            b'F' => {
                let value = self.parsed_line::<f64>()?;
                self.float(value)?;
            }
            b'G' => {
                let bits = self.input.unsigned(8)?.swap_bytes(); // the one big-endian number
                self.float(f64::from_bits(bits))?;
            }

            b'V' => self.escaped_text()?,
            b'X' | b'T' => self.text(4)?, // T and U: Python 2's `str`
            0x8c | b'U' => self.text(1)?,
            0x8d => self.text(8)?,
            b'C' => self.byte_string(1)?,
            b'B' => self.byte_string(4)?,
            0x8e | 0x96 => self.byte_string(8)?,

            0x8f => self.stack.push(Pickle::other("set")),
            0x91 => {
                self.pop_mark()?;
                self.stack.push(Pickle::other("frozenset"));
            }
            other => self.container(other)?,
        }
        Ok(())
    }

    fn container(&mut self, opcode: u8) -> Result<(), PickleError> {
        match opcode {
            b')' | b']' => self.push_list(&[]),
            0x85 => self.tuple(1),
            0x86 => self.tuple(2),
            0x87 => self.tuple(3),
            b't' | b'l' => {
                let items = self.pop_mark()?;
                self.push_list(&items)
            }
            b'a' => {
                let item = self.pop()?;
                self.extend_list(&[item])
            }
            b'e' => {
                let items = self.pop_mark()?;
                self.extend_list(&items)
            }
            b'}' => self.push_dict(&[]),
            b'd' => {
                let items = self.pop_mark()?;
                self.push_dict(&items)
            }
            b's' => {
                let value = self.pop()?;
                let key = self.pop()?;
                self.extend_dict(&[key, value])
            }
            b'u' => {
                let items = self.pop_mark()?;
                self.extend_dict(&items)
            }
            byte if self.allows.is_some() => self.object(byte),
            byte => Err(self.refused(byte)),
        }
    }

    /// Handles opcodes that would look something up or call it.
    fn object(&mut self, opcode: u8) -> Result<(), PickleError> {
        match opcode {
            b'c' => {
                let (module, name) = (self.line()?.to_owned(), self.line()?.to_owned());
                self.push_text(&module)?;
                self.push_text(&name)?;
                self.global()
            }
            0x93 => self.global(),
            b'R' => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                let PickleValue::Object(PickleObject::Global { module, name }) =
                    self.pickle.value(function)
                else {
                    return Err(self.no_operand());
                };
                if !arguments.is(Tag::List) {
                    return Err(self.no_operand());
                }
                let text = |handle| self.pickle.value(handle);
                let is_dict = matches!(
                    (text(module), text(name)),
                    (PickleValue::Text("collections"), PickleValue::Text("OrderedDict"))
                );
                if is_dict {
                    // Its entries follow, as in any dict.
                    return self.push_dict(&[]);
                }
                self.push_object(PickleObject::Call { function, arguments })
            }
            b'b' => {
                self.pop()?; // the state; the object stays
                self.top().map(drop)
            }
            b'Q' => {
                let id = self.pop()?;
                self.push_object(PickleObject::Persistent(id))
            }
            byte => Err(self.refused(byte)),
        }
    }

    /// A global, whose module and name are on the stack.
    fn global(&mut self) -> Result<(), PickleError> {
        let (name, module) = (self.pop()?, self.pop()?);
        let (PickleValue::Text(module_text), PickleValue::Text(name_text)) =
            (self.pickle.value(module), self.pickle.value(name))
        else {
            return Err(self.bad_value());
        };
        if !self.allows.is_some_and(|allows| allows(module_text, name_text)) {
            let global = format!("{module_text}.{name_text}");
            // Truncated, because the text may be as long as the file.
            let global = global.chars().take(200).collect();
            return Err(PickleError::Global { global, offset: self.opcode_at });
        }
        self.push_object(PickleObject::Global { module, name })
    }

    fn push_object(&mut self, object: PickleObject) -> Result<(), PickleError> {
        let handle = self.pickle.add_object(object).ok_or(self.too_large())?;
        self.stack.push(handle);
        Ok(())
    }

    fn refused(&self, byte: u8) -> PickleError {
        let offset = self.opcode_at;
        let opcode = match byte {
            b'c' => "GLOBAL",
            0x93 => "STACK_GLOBAL",
            b'R' => "REDUCE",
            b'b' => "BUILD",
            b'i' => "INST",
            b'o' => "OBJ",
            0x81 => "NEWOBJ",
            0x92 => "NEWOBJ_EX",
            b'P' => "PERSID",
            b'Q' => "BINPERSID",
            0x82 => "EXT1",
            0x83 => "EXT2",
            0x84 => "EXT4",
            _ => return PickleError::UnknownOpcode { byte, offset },
        };
        PickleError::Code { opcode, offset }
    }

    // Numbers and strings.

    fn line(&mut self) -> Result<&str, PickleError> {
        self.bytes.clear();
        self.input.line(&mut self.bytes)?;
        let offset = self.opcode_at;
        str::from_utf8(&self.bytes).map_err(|_| PickleError::BadValue { offset })
    }

    fn parsed_line<T: std::str::FromStr>(&mut self) -> Result<T, PickleError> {
        let offset = self.opcode_at;
        self.line()?.parse().map_err(|_| PickleError::BadValue { offset })
    }

    /// Reads bytes that are prefixed by a length of `width` bytes.
    fn sized(&mut self, width: usize) -> Result<(), PickleError> {
        let length = self.input.unsigned(width)?;
        self.bytes.clear();
        self.input.take(length, &mut self.bytes)
    }

    fn int(&mut self, value: i64) -> Result<(), PickleError> {
        let handle = self.pickle.add_int(value).ok_or(self.too_large())?;
        self.stack.push(handle);
        Ok(())
    }

    fn float(&mut self, value: f64) -> Result<(), PickleError> {
        let handle = self.pickle.add_float(value).ok_or(self.too_large())?;
        self.stack.push(handle);
        Ok(())
    }

    fn long(&mut self, width: usize) -> Result<(), PickleError> {
        self.sized(width)?;
        let bytes = &self.bytes;
        if bytes.len() > 8 {
            self.stack.push(Pickle::big_int());
            return Ok(());
        }
        let filler = if bytes.last().is_some_and(|&byte| byte >= 0x80) { 0xff } else { 0 };
        let mut word = [filler; 8];
        word[..bytes.len()].copy_from_slice(bytes);
        self.int(i64::from_le_bytes(word))
    }

    fn text_int(&mut self) -> Result<(), PickleError> {
        let bad = self.bad_value();
        let line = self.line()?;
        let as_bool = match line {
            "00" => Some(false),
            "01" => Some(true),
            _ => None,
        };
        let digits = line.strip_suffix('L').unwrap_or(line);
        let (parsed, is_integer) = (digits.parse(), is_integer(digits));
        match parsed {
            Err(_) if !is_integer => return Err(bad),
            _ if as_bool.is_some() => self.stack.push(Pickle::bool(as_bool == Some(true))),
            Ok(value) => self.int(value)?,
            Err(_) => self.stack.push(Pickle::big_int()),
        }
        Ok(())
    }

    fn push_text(&mut self, text: &str) -> Result<(), PickleError> {
        let handle = self.pickle.add_text(text).ok_or(self.too_large())?;
        self.stack.push(handle);
        Ok(())
    }

    fn text(&mut self, width: usize) -> Result<(), PickleError> {
        self.sized(width)?;
        let bytes = std::mem::take(&mut self.bytes);
        let text = str::from_utf8(&bytes).map_err(|_| self.bad_value())?;
        self.push_text(text)?;
        self.bytes = bytes;
        Ok(())
    }

    /// Protocol 0: Latin-1 with `\uXXXX` and `\UXXXXXXXX`.
    fn escaped_text(&mut self) -> Result<(), PickleError> {
        self.bytes.clear();
        self.input.line(&mut self.bytes)?;
        let bytes = std::mem::take(&mut self.bytes);
        let mut rest = bytes.as_slice();
        let mut text = String::new();
        while let [first, tail @ ..] = rest {
            let width = match rest {
                [b'\\', b'u', ..] => 4,
                [b'\\', b'U', ..] => 8,
                _ => 0,
            };
            if width == 0 {
                text.push(char::from(*first));
                rest = tail;
                continue;
            }
            let symbol = tail
                .get(1..=width)
                .and_then(|digits| str::from_utf8(digits).ok())
                .and_then(|digits| u32::from_str_radix(digits, 16).ok())
                .and_then(char::from_u32);
            text.push(symbol.ok_or(self.bad_value())?);
            rest = &tail[width + 1..];
        }
        self.push_text(&text)
    }

    fn byte_string(&mut self, width: usize) -> Result<(), PickleError> {
        let length = self.input.unsigned(width)?;
        self.input.skip(length)?;
        self.stack.push(Pickle::other("bytes"));
        Ok(())
    }

    // The stack and the memo.

    /// The lowest stack height that the current opcode may pop to.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Result<Handle, PickleError> {
        if self.stack.len() <= self.floor() {
            return Err(self.no_operand());
        }
        self.stack.pop().ok_or(self.no_operand())
    }

    fn pop_any(&mut self) -> Result<(), PickleError> {
        if self.marks.last() == Some(&self.stack.len()) {
            self.marks.pop();
            return Ok(());
        }
        self.pop().map(drop)
    }

    fn pop_mark(&mut self) -> Result<Vec<Handle>, PickleError> {
        let mark = self.marks.pop().ok_or(self.no_operand())?;
        Ok(self.stack.split_off(mark))
    }

    fn top(&self) -> Result<Handle, PickleError> {
        if self.stack.len() <= self.floor() {
            return Err(self.no_operand());
        }
        self.stack.last().copied().ok_or(self.no_operand())
    }

    fn memoize(&mut self, key: u64) -> Result<(), PickleError> {
        let top = self.top()?;
        let index = usize::try_from(key).unwrap_or(usize::MAX);
        match index.cmp(&self.memo.len()) {
            std::cmp::Ordering::Less => self.memo[index] = top,
            std::cmp::Ordering::Equal => self.memo.push(top),
            std::cmp::Ordering::Greater => drop(self.sparse_memo.insert(key, top)),
        }
        Ok(())
    }

    fn memoize_sized(&mut self, width: usize) -> Result<(), PickleError> {
        let key = self.input.unsigned(width)?;
        self.memoize(key)
    }

    fn recall_sized(&mut self, width: usize) -> Result<(), PickleError> {
        let key = self.input.unsigned(width)?;
        self.recall(key)
    }

    fn recall(&mut self, key: u64) -> Result<(), PickleError> {
        let dense = usize::try_from(key).ok().and_then(|index| self.memo.get(index));
        // A key that was set out of order may also be in the dense range by now.
        let value = self.sparse_memo.get(&key).or(dense).copied().ok_or(self.no_operand())?;
        self.stack.push(value);
        Ok(())
    }

    // Containers.

    fn tuple(&mut self, n: usize) -> Result<(), PickleError> {
        if self.stack.len() < self.floor() + n {
            return Err(self.no_operand());
        }
        let items = self.stack.split_off(self.stack.len() - n);
        self.push_list(&items)
    }

    fn push_list(&mut self, items: &[Handle]) -> Result<(), PickleError> {
        let handle = self.pickle.add_list(items).ok_or(self.too_large())?;
        self.stack.push(handle);
        Ok(())
    }

    fn extend_list(&mut self, items: &[Handle]) -> Result<(), PickleError> {
        let top = self.top()?;
        let missing = self.no_operand();
        if !top.is(Tag::List) {
            return Err(missing);
        }
        self.pickle.extend_list(top, items).ok_or(self.too_large())
    }

    fn push_dict(&mut self, items: &[Handle]) -> Result<(), PickleError> {
        let handle = self.pickle.add_dict().ok_or(self.too_large())?;
        self.stack.push(handle);
        self.extend_dict(items)
    }

    fn extend_dict(&mut self, items: &[Handle]) -> Result<(), PickleError> {
        let top = self.top()?;
        let missing = self.no_operand();
        if !items.len().is_multiple_of(2) || !top.is(Tag::Dict) {
            return Err(missing);
        }
        let pairs: Vec<[Handle; 2]> =
            items.chunks_exact(2).map(|pair| [pair[0], pair[1]]).collect();
        if !pairs.is_empty() && !(self.keep)(&self.pickle, &pairs) {
            return Ok(());
        }
        self.pickle.extend_dict(top, &pairs).ok_or(self.too_large())
    }

    fn no_operand(&self) -> PickleError {
        PickleError::NoOperand { offset: self.opcode_at }
    }

    fn bad_value(&self) -> PickleError {
        PickleError::BadValue { offset: self.opcode_at }
    }

    fn too_large(&self) -> PickleError {
        PickleError::TooLarge { offset: self.opcode_at }
    }
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
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
        Self::read_within(reader, usize::MAX, keep)
    }

    /// Like [`Pickle::read_some`], but fails if there are more lists and dicts than `containers`, or
    /// [`VALUES_PER_CONTAINER`] times as many other values, so that a hostile file cannot use many
    /// times its size in memory.
    pub fn read_within(
        reader: impl Read,
        containers: usize,
        keep: impl FnMut(&Self, &[[Handle; 2]]) -> bool,
    ) -> Result<Self, PickleError> {
        StackMachine::new(reader, containers, keep, None).run()
    }

    /// Like [`Pickle::read`], but describes objects instead of refusing them, if `allows` accepts
    /// every global by module and name. Nothing is looked up or called. An `OrderedDict` becomes a
    /// dict; attributes that are set on an object are dropped.
    pub fn read_objects(
        reader: impl Read,
        allows: fn(module: &str, name: &str) -> bool,
    ) -> Result<Self, PickleError> {
        StackMachine::new(reader, usize::MAX, |_, _| true, Some(allows)).run()
    }
}
