//! Plain values out of a Python pickle, and nothing else.
//!
//! A pickle is a program for a stack machine that may call any Python function. This reader
//! knows numbers, text and containers; the first opcode that would look up or call something
//! is an error. Containers live in one table and refer to each other by index, so a pickle
//! that nests a million deep, contains itself or doubles itself forty times costs no more
//! than its own bytes. (`serde-pickle` overflows the stack on the first and invents empty
//! dicts for objects; that is why this file exists.)

use std::{collections::BTreeMap, rc::Rc};

/// Why bytes are not a plain pickle. Offsets are in bytes from the start.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum PickleError {
    /// The pickle would run code.
    #[error("it asks to run code, which is not done (opcode `{opcode}` at byte {offset})")]
    Code {
        /// Python's name of the opcode.
        opcode: &'static str,
        /// Where it stands.
        offset: usize,
    },
    /// Not a pickle, or of a protocol after 5.
    #[error("it is not a pickle that can be read (byte {byte:#04x} at {offset} is no opcode)")]
    UnknownOpcode {
        /// The byte.
        byte: u8,
        /// Where it stands.
        offset: usize,
    },
    /// The bytes end too early.
    #[error("it is cut off: it ends after {length} bytes, before its end mark")]
    CutOff {
        /// How many bytes there are.
        length: usize,
    },
    /// An opcode takes what the stack does not have.
    #[error("it is not a valid pickle (the opcode at byte {offset} lacks its operand)")]
    NoOperand {
        /// Where the opcode stands.
        offset: usize,
    },
    /// A number or a text that cannot be decoded.
    #[error("it is not a valid pickle (the value at byte {offset} cannot be decoded)")]
    BadValue {
        /// Where its opcode stands.
        offset: usize,
    },
    /// Bytes after the end mark.
    #[error("it goes on for {extra} bytes after its end mark")]
    Trailing {
        /// How many.
        extra: usize,
    },
}

/// A value. Containers are looked up in their [`Pickle`].
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// An integer of up to 64 bits.
    Int(i64),
    /// An integer beyond 64 bits.
    BigInt,
    /// A string.
    Text(Rc<str>),
    /// An index into the dicts.
    Dict(usize),
    /// An index into the lists; tuples too.
    List(usize),
    /// Something we never need, by its Python name.
    Other(&'static str),
}

/// A pickle, read.
#[derive(Debug)]
pub(super) struct Pickle {
    pub(super) root: Value,
    dicts: Vec<Vec<(Value, Value)>>,
    lists: Vec<Vec<Value>>,
}

impl Pickle {
    /// The entries of a dict in the order they were set.
    pub(super) fn dict(&self, index: usize) -> &[(Value, Value)] {
        &self.dicts[index]
    }

    /// The items of a list.
    pub(super) fn list(&self, index: usize) -> &[Value] {
        &self.lists[index]
    }

    /// Reads protocols 0 to 5.
    pub(super) fn read(bytes: &[u8]) -> Result<Self, PickleError> {
        let mut machine = Machine {
            bytes,
            position: 0,
            opcode_at: 0,
            stack: Vec::new(),
            marks: Vec::new(),
            memo: BTreeMap::new(),
            dicts: Vec::new(),
            lists: Vec::new(),
        };
        let root = machine.run()?;
        match bytes.len() - machine.position {
            0 => Ok(Self { root, dicts: machine.dicts, lists: machine.lists }),
            extra => Err(PickleError::Trailing { extra }),
        }
    }
}

struct Machine<'a> {
    bytes: &'a [u8],
    position: usize,
    opcode_at: usize,
    stack: Vec<Value>,
    marks: Vec<usize>, // heights of the stack
    memo: BTreeMap<u64, Value>,
    dicts: Vec<Vec<(Value, Value)>>,
    lists: Vec<Vec<Value>>,
}

impl<'a> Machine<'a> {
    /// Runs to the end mark and returns what lies on top.
    fn run(&mut self) -> Result<Value, PickleError> {
        loop {
            self.opcode_at = self.position;
            let opcode = self.take(1)?[0];
            match opcode {
                b'.' => return self.pop(),
                0x80 => drop(self.take(1)?), // PROTO: opcodes say enough
                0x95 => drop(self.take(8)?), // FRAME: a hint for readers of streams

                b'(' => self.marks.push(self.stack.len()),
                b'0' => self.pop_any()?,
                // POP_MARK, or ADDITEMS to a set, whose items nobody reads.
                b'1' | 0x90 => drop(self.pop_mark()?),
                b'2' => {
                    let top = self.top()?;
                    self.stack.push(top);
                }

                b'p' => self.memoize_line()?,
                b'q' => self.memoize(1)?,
                b'r' => self.memoize(4)?,
                0x94 => {
                    let (key, top) = (self.memo.len() as u64, self.top()?);
                    self.memo.insert(key, top);
                }
                b'g' => {
                    let key = self.parsed_line()?;
                    self.recall(key)?;
                }
                b'h' => self.recall_sized(1)?,
                b'j' => self.recall_sized(4)?,

                b'N' => self.stack.push(Value::Other("None")),
                0x88 | 0x89 => self.stack.push(Value::Other("bool")),
                b'I' | b'L' => self.text_int()?,
                b'J' => {
                    let value = self.unsigned(4)? as u32 as i32;
                    self.stack.push(Value::Int(value.into()));
                }
                b'K' => self.int(1)?,
                b'M' => self.int(2)?,
                0x8a => self.long(1)?,
                0x8b => self.long(4)?,
                b'F' => {
                    self.parsed_line::<f64>()?;
                    self.stack.push(Value::Other("float"));
                }
                b'G' => {
                    self.take(8)?;
                    self.stack.push(Value::Other("float"));
                }

                b'V' => self.escaped_text()?,
                b'X' | b'T' => self.text(4)?, // T and U: Python 2's `str`
                0x8c | b'U' => self.text(1)?,
                0x8d => self.text(8)?,
                b'C' => self.byte_string(1)?,
                b'B' => self.byte_string(4)?,
                0x8e | 0x96 => self.byte_string(8)?,

                b')' | b']' => self.push_list(Vec::new()),
                0x85 => self.tuple(1)?,
                0x86 => self.tuple(2)?,
                0x87 => self.tuple(3)?,
                b't' | b'l' => {
                    let items = self.pop_mark()?;
                    self.push_list(items);
                }
                b'a' => {
                    let item = self.pop()?;
                    self.extend_list([item])?;
                }
                b'e' => {
                    let items = self.pop_mark()?;
                    self.extend_list(items)?;
                }

                b'}' => self.push_dict(Vec::new())?,
                b'd' => {
                    let items = self.pop_mark()?;
                    self.push_dict(items)?;
                }
                b's' => {
                    let value = self.pop()?;
                    let key = self.pop()?;
                    self.extend_dict(vec![key, value])?;
                }
                b'u' => {
                    let items = self.pop_mark()?;
                    self.extend_dict(items)?;
                }

                0x8f => self.stack.push(Value::Other("set")),
                0x91 => {
                    self.pop_mark()?;
                    self.stack.push(Value::Other("frozenset"));
                }

                byte => return Err(self.refused(byte)),
            }
        }
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

    // Bytes.

    fn take(&mut self, n: usize) -> Result<&'a [u8], PickleError> {
        let bytes = self.bytes; // outlives the borrow of `self`
        let end = self.position.checked_add(n).filter(|&end| end <= bytes.len());
        let end = end.ok_or(PickleError::CutOff { length: bytes.len() })?;
        let taken = &bytes[self.position..end];
        self.position = end;
        Ok(taken)
    }

    fn line(&mut self) -> Result<&'a [u8], PickleError> {
        let length = self.bytes[self.position..].iter().position(|&byte| byte == b'\n');
        let length = length.ok_or(PickleError::CutOff { length: self.bytes.len() })?;
        let line = self.take(length)?;
        self.take(1)?;
        Ok(line)
    }

    fn parsed_line<T: std::str::FromStr>(&mut self) -> Result<T, PickleError> {
        let line = str::from_utf8(self.line()?).ok();
        line.and_then(|line| line.parse().ok()).ok_or(self.bad_value())
    }

    /// A little-endian number of `width` bytes.
    fn unsigned(&mut self, width: usize) -> Result<u64, PickleError> {
        let bytes = self.take(width)?;
        Ok(bytes.iter().rev().fold(0, |number, &byte| (number << 8) | u64::from(byte)))
    }

    /// Bytes behind their length, which has `width` bytes itself.
    fn sized(&mut self, width: usize) -> Result<&'a [u8], PickleError> {
        let length = self.unsigned(width)?;
        self.take(usize::try_from(length).unwrap_or(usize::MAX))
    }

    // Numbers and text.

    fn int(&mut self, width: usize) -> Result<(), PickleError> {
        let value = self.unsigned(width)?;
        self.stack.push(Value::Int(value as i64)); // at most two bytes
        Ok(())
    }

    fn long(&mut self, width: usize) -> Result<(), PickleError> {
        let bytes = self.sized(width)?;
        let value = if bytes.len() > 8 {
            Value::BigInt
        } else {
            let filler = if bytes.last().is_some_and(|&byte| byte >= 0x80) { 0xff } else { 0 };
            let mut word = [filler; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            Value::Int(i64::from_le_bytes(word))
        };
        self.stack.push(value);
        Ok(())
    }

    fn text_int(&mut self) -> Result<(), PickleError> {
        let line = str::from_utf8(self.line()?).map_err(|_| self.bad_value())?;
        let digits = line.strip_suffix('L').unwrap_or(line);
        let value = match digits.parse() {
            _ if matches!(line, "00" | "01") => Value::Other("bool"),
            Ok(value) => Value::Int(value),
            Err(_) if is_integer(digits) => Value::BigInt,
            Err(_) => return Err(self.bad_value()),
        };
        self.stack.push(value);
        Ok(())
    }

    fn text(&mut self, width: usize) -> Result<(), PickleError> {
        let text = str::from_utf8(self.sized(width)?).map_err(|_| self.bad_value())?;
        self.stack.push(Value::Text(text.into()));
        Ok(())
    }

    /// Protocol 0: Latin-1 with `\uXXXX` and `\UXXXXXXXX`.
    fn escaped_text(&mut self) -> Result<(), PickleError> {
        let mut rest = self.line()?;
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
        self.stack.push(Value::Text(text.into()));
        Ok(())
    }

    fn byte_string(&mut self, width: usize) -> Result<(), PickleError> {
        self.sized(width)?;
        self.stack.push(Value::Other("bytes"));
        Ok(())
    }

    // The stack and the memo.

    /// The lowest height that the current opcode may reach down to.
    fn floor(&self) -> usize {
        self.marks.last().copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Result<Value, PickleError> {
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

    fn pop_mark(&mut self) -> Result<Vec<Value>, PickleError> {
        let mark = self.marks.pop().ok_or(self.no_operand())?;
        Ok(self.stack.split_off(mark))
    }

    fn top(&self) -> Result<Value, PickleError> {
        if self.stack.len() <= self.floor() {
            return Err(self.no_operand());
        }
        self.stack.last().cloned().ok_or(self.no_operand())
    }

    fn memoize(&mut self, width: usize) -> Result<(), PickleError> {
        let key = self.unsigned(width)?;
        let top = self.top()?;
        self.memo.insert(key, top);
        Ok(())
    }

    fn memoize_line(&mut self) -> Result<(), PickleError> {
        let key = self.parsed_line()?;
        let top = self.top()?;
        self.memo.insert(key, top);
        Ok(())
    }

    fn recall_sized(&mut self, width: usize) -> Result<(), PickleError> {
        let key = self.unsigned(width)?;
        self.recall(key)
    }

    fn recall(&mut self, key: u64) -> Result<(), PickleError> {
        let value = self.memo.get(&key).cloned().ok_or(self.no_operand())?;
        self.stack.push(value);
        Ok(())
    }

    // Containers.

    fn tuple(&mut self, n: usize) -> Result<(), PickleError> {
        if self.stack.len() < self.floor() + n {
            return Err(self.no_operand());
        }
        let items = self.stack.split_off(self.stack.len() - n);
        self.push_list(items);
        Ok(())
    }

    fn push_list(&mut self, items: Vec<Value>) {
        self.stack.push(Value::List(self.lists.len()));
        self.lists.push(items);
    }

    fn extend_list(&mut self, items: impl IntoIterator<Item = Value>) -> Result<(), PickleError> {
        match self.top()? {
            Value::List(index) => self.lists[index].extend(items),
            _ => return Err(self.no_operand()),
        }
        Ok(())
    }

    fn push_dict(&mut self, items: Vec<Value>) -> Result<(), PickleError> {
        self.stack.push(Value::Dict(self.dicts.len()));
        self.dicts.push(Vec::new());
        self.extend_dict(items)
    }

    fn extend_dict(&mut self, items: Vec<Value>) -> Result<(), PickleError> {
        if !items.len().is_multiple_of(2) {
            return Err(self.no_operand());
        }
        match self.top()? {
            Value::Dict(index) => {
                let mut items = items.into_iter();
                let pairs = std::iter::from_fn(|| Some((items.next()?, items.next()?)));
                self.dicts[index].extend(pairs);
            }
            _ => return Err(self.no_operand()),
        }
        Ok(())
    }

    fn no_operand(&self) -> PickleError {
        PickleError::NoOperand { offset: self.opcode_at }
    }

    fn bad_value(&self) -> PickleError {
        PickleError::BadValue { offset: self.opcode_at }
    }
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix('-').unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pickle_that_nests_a_million_deep_is_read_like_any_other() {
        for opening in [b")\x85".as_slice(), b"]", b"}"] {
            let mut bytes = b"\x80\x02".to_vec();
            if opening == b")\x85" {
                bytes.push(b')');
                bytes.extend(std::iter::repeat_n(0x85, 1_000_000)); // tuple of tuple of …
            } else if opening == b"]" {
                bytes.extend(std::iter::repeat_n(b']', 1_000_000));
                bytes.extend(std::iter::repeat_n(b'a', 999_999));
            } else {
                bytes.extend(b"}K\x00".repeat(1_000_000));
                bytes.push(b'N');
                bytes.extend(std::iter::repeat_n(b's', 1_000_000));
            }
            bytes.push(b'.');
            drop(Pickle::read(&bytes).unwrap());
        }
    }

    #[test]
    fn a_pickle_that_doubles_itself_costs_no_more_than_its_bytes() {
        let mut bytes = b"]".to_vec();
        for _ in 0..200 {
            bytes.extend(b"q\x000]h\x00ah\x00a"); // x = [x, x]
        }
        bytes.push(b'.');
        assert_eq!(Pickle::read(&bytes).unwrap().lists.len(), 201);
    }

    #[test]
    fn a_list_that_contains_itself_is_read() {
        assert!(Pickle::read(b"]q\x00h\x00a.").is_ok());
    }

    #[test]
    fn a_length_that_exceeds_the_file_is_an_error_before_it_is_memory() {
        for bytes in [
            b"X\xff\xff\xff\xff".as_slice(),
            b"\x8d\xff\xff\xff\xff\xff\xff\xff\xff",
            b"\x8b\xff\xff\xff\xff",
            b"B\xff\xff\xff\x7fabc",
        ] {
            assert_eq!(
                Pickle::read(bytes).unwrap_err(),
                PickleError::CutOff { length: bytes.len() }
            );
        }
    }

    #[test]
    fn every_opcode_on_an_empty_stack_is_an_error_or_a_value() {
        for first in 0..=u8::MAX {
            for second in 0..=u8::MAX {
                // No assertion beyond "returns": a panic or an abort fails the test.
                let _ = Pickle::read(&[first, second, b'.']);
                let _ = Pickle::read(&[b'(', first, second, b'.']);
                let _ = Pickle::read(&[b'}', first, second, b'\n', b'.']);
            }
        }
    }

    #[test]
    fn numbers_of_every_width_keep_their_sign() {
        let int = |bytes: &[u8]| match Pickle::read(bytes).unwrap().root {
            Value::Int(value) => value,
            other => panic!("{other:?}"),
        };
        assert_eq!(int(b"J\xff\xff\xff\xff."), -1);
        assert_eq!(int(b"K\xff."), 255);
        assert_eq!(int(b"M\xff\xff."), 65_535);
        assert_eq!(int(b"\x8a\x01\xff."), -1);
        assert_eq!(int(b"\x8a\x02\xff\x00."), 255);
        assert_eq!(int(b"\x8a\x00."), 0);
        assert_eq!(int(b"I-7\n."), -7);
        assert_eq!(int(b"L65L\n."), 65);
        let big = Pickle::read(b"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.").unwrap();
        assert!(matches!(big.root, Value::BigInt));
    }

    #[test]
    fn bytes_after_the_end_are_an_error() {
        assert_eq!(Pickle::read(b"N.N.").unwrap_err(), PickleError::Trailing { extra: 2 });
    }
}
