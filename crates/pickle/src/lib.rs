//! Reads plain values from a Python pickle.
//!
//! A pickle is a program for a stack machine that may call any Python function. This reader
//! supports numbers, strings and containers; the first opcode that would look up or call something
//! is an error. [`Pickle::read_objects`] instead records such calls, for functions that its caller
//! allows, and never executes them.
//!
//! Containers are kept in tables and refer to each other by index, so a pickle that is nested a
//! million levels deep, contains itself or doubles itself forty times needs no more memory than its
//! bytes. The input is read as a stream and a value takes four bytes, so a parsed file is about as
//! large as the file. (`serde-pickle` overflows the stack on deep nesting and replaces objects by
//! empty dicts, which is why this crate exists.)
//!
//! Promise: any bytes are a pickle or an error, and nothing in them is executed. Test: properties
//! in this crate, `scripts/fuzz`.
#![forbid(unsafe_code)]

mod input;
mod rows;
mod values;
mod machine;
mod words;

pub use self::values::{Handle, Pickle, PickleObject, PickleValue};

/// Why the input is not a plain pickle. Offsets are in bytes from the start.
#[derive(Debug, thiserror::Error)]
pub enum PickleError {
    /// The pickle would run code.
    Code {
        /// Python's name of the opcode.
        opcode: &'static str,
        /// Its offset.
        offset: usize,
    },
    /// A class or function that is not on the caller's list.
    Global {
        /// Its module and name.
        global: String,
        /// Offset of the opcode.
        offset: usize,
    },
    /// Not a pickle, or a protocol above 5.
    UnknownOpcode {
        /// The byte.
        byte: u8,
        /// Its offset.
        offset: usize,
    },
    /// The input ends too early.
    CutOff {
        /// Length of the input.
        length: usize,
    },
    /// The stack lacks the operand of an opcode.
    NoOperand {
        /// Offset of the opcode.
        offset: usize,
    },
    /// A number or string that cannot be decoded.
    BadValue {
        /// Offset of its opcode.
        offset: usize,
    },
    /// More values than a four-byte handle can index.
    TooLarge {
        /// Offset at which the table was full.
        offset: usize,
    },
    /// Bytes after the end mark.
    Trailing {
        /// Their number.
        extra: usize,
    },
    /// The input could not be read.
    Io(#[from] std::io::Error),
}

/// Errors with the same message are equal; I/O errors never are.
impl PartialEq for PickleError {
    fn eq(&self, other: &Self) -> bool {
        !matches!(self, Self::Io(_)) && self.to_string() == other.to_string()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_pickle_nested_a_million_deep_is_read() {
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
            drop(Pickle::read(bytes.as_slice()).unwrap());
        }
    }

    #[test]
    fn a_pickle_of_more_containers_than_allowed_is_refused() {
        let mut bytes = b"\x80\x02](".to_vec();
        bytes.extend(std::iter::repeat_n(b'}', 10));
        bytes.extend(b"e.");
        let read = |most| Pickle::read_within(bytes.as_slice(), most, |_, _| true);
        assert!(read(11).is_ok());
        assert!(matches!(read(10), Err(PickleError::TooLarge { .. })));
    }

    #[test]
    fn marks_operands_and_numbers_are_bounded_with_the_containers() {
        for hostile in
            [&b"("[..], b"N", b"K\x01", b"\x8c\x00", b"G\0\0\0\0\0\0\0\0", b"J\0\0\0\x800"]
        {
            let bytes = [b"\x80\x02".to_vec(), hostile.repeat(100), b"N.".to_vec()].concat();
            let read = |most| Pickle::read_within(bytes.as_slice(), most, |_, _| true);
            assert!(matches!(read(10), Err(PickleError::TooLarge { .. })), "{hostile:?}");
        }
        // Memo keys with gaps, which Python does not write; each key has four bytes.
        let memo: Vec<u8> =
            (1..100).flat_map(|n: u32| [&b"r"[..], &(7 * n).to_le_bytes()].concat()).collect();
        let bytes = [b"\x80\x02N".to_vec(), memo, b".".to_vec()].concat();
        assert!(Pickle::read(bytes.as_slice()).is_ok());
        let bounded = Pickle::read_within(bytes.as_slice(), 10, |_, _| true);
        assert!(matches!(bounded, Err(PickleError::TooLarge { .. })));
    }

    #[test]
    fn a_pickle_that_doubles_itself_costs_no_more_than_its_bytes() {
        let mut bytes = b"]".to_vec();
        for _ in 0..200 {
            bytes.extend(b"q\x000]h\x00ah\x00a"); // x = [x, x]
        }
        bytes.push(b'.');
        let pickle = Pickle::read(bytes.as_slice()).unwrap();
        assert!(matches!(pickle.root(), PickleValue::List(items) if items.len() == 2));
    }

    #[test]
    fn a_list_that_contains_itself_is_read() {
        assert!(Pickle::read(b"]q\x00h\x00a.".as_slice()).is_ok());
    }

    #[test]
    fn a_length_beyond_the_file_is_an_error_and_allocates_nothing() {
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
                // Only checks that reading returns: a panic or abort fails the test.
                let _ = Pickle::read([first, second, b'.'].as_slice());
                let _ = Pickle::read([b'(', first, second, b'.'].as_slice());
                let _ = Pickle::read([b'}', first, second, b'\n', b'.'].as_slice());
            }
        }
    }

    #[test]
    fn numbers_of_every_width_keep_their_sign() {
        let int = |bytes: &[u8]| match Pickle::read(bytes).unwrap().root() {
            PickleValue::Int(value) => value,
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
        let big =
            Pickle::read(b"\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01.".as_slice()).unwrap();
        assert!(matches!(big.root(), PickleValue::BigInt));
    }

    #[test]
    fn bytes_after_the_end_are_an_error() {
        assert_eq!(
            Pickle::read(b"N.N.".as_slice()).unwrap_err(),
            PickleError::Trailing { extra: 2 }
        );
    }

    #[test]
    fn unwanted_entries_are_left_out() {
        // {'a': 1}, {'b': 2} in a list
        let bytes = b"](}(X\x01\0\0\0aK\x01u}(X\x01\0\0\0bK\x02ue.";
        let pickle =
            Pickle::read_some(bytes.as_slice(), |pickle, pairs| pickle.get(pairs, "a").is_none());
        let pickle = pickle.unwrap();
        let PickleValue::List([first, second]) = pickle.root() else { panic!("{pickle:?}") };
        assert!(matches!(pickle.value(*first), PickleValue::Dict([])));
        let PickleValue::Dict(kept) = pickle.value(*second) else { panic!("{pickle:?}") };
        assert!(matches!(pickle.get(kept, "b"), Some(PickleValue::Int(2))));
    }

    /// The globals of these tests.
    fn allows(module: &str, name: &str) -> bool {
        matches!((module, name), ("collections", "OrderedDict") | ("torch", "rebuild"))
    }

    #[test]
    fn objects_are_described_and_never_created() {
        // torch.rebuild(('storage', 7)) with a persistent id, and attributes that are dropped
        let bytes = b"ctorch\nrebuild\n(X\x07\0\0\0storageK\x07tQ\x85R}b.";
        let pickle = Pickle::read_objects(bytes.as_slice(), allows).unwrap();
        let PickleValue::Object(PickleObject::Call { function, arguments }) = pickle.root() else {
            panic!("{pickle:?}");
        };
        let PickleValue::Object(PickleObject::Global { module, name }) = pickle.value(function)
        else {
            panic!("{pickle:?}");
        };
        assert!(matches!(pickle.value(module), PickleValue::Text("torch")));
        assert!(matches!(pickle.value(name), PickleValue::Text("rebuild")));
        let PickleValue::List([id]) = pickle.value(arguments) else { panic!("{pickle:?}") };
        let PickleValue::Object(PickleObject::Persistent(id)) = pickle.value(*id) else {
            panic!("{pickle:?}");
        };
        let PickleValue::List([kind, key]) = pickle.value(id) else { panic!("{pickle:?}") };
        assert!(matches!(pickle.value(*kind), PickleValue::Text("storage")));
        assert!(matches!(pickle.value(*key), PickleValue::Int(7)));
    }

    #[test]
    fn an_ordered_dict_is_a_dict() {
        let bytes =
            b"ccollections\nOrderedDict\n)R(X\x01\0\0\0aG\x3f\xe0\0\0\0\0\0\0X\x01\0\0\0b\x88u.";
        let pickle = Pickle::read_objects(bytes.as_slice(), allows).unwrap();
        let PickleValue::Dict(pairs) = pickle.root() else { panic!("{pickle:?}") };
        assert!(matches!(pickle.get(pairs, "a"), Some(PickleValue::Float(0.5))));
        assert!(matches!(pickle.get(pairs, "b"), Some(PickleValue::Bool(true))));
    }

    #[test]
    fn another_global_is_refused_by_name() {
        for bytes in
            [b"cos\nsystem\n(X\x02\0\0\0lstR.".as_slice(), b"X\x02\0\0\0osX\x06\0\0\0system\x93."]
        {
            let error = Pickle::read_objects(bytes, allows).unwrap_err();
            assert!(error.to_string().contains("`os.system`"), "{error}");
            let error = Pickle::read(bytes).unwrap_err();
            assert!(error.to_string().contains("GLOBAL"), "{error}");
        }
        // Other opcodes that create objects are refused even if the class is allowed.
        for bytes in [
            b"ctorch\nrebuild\n)\x81.".as_slice(),
            b"(itorch\nrebuild\n.",
            b"(ctorch\nrebuild\no.",
            b"K\x01)R.",
            b"Pid\n.",
        ] {
            assert!(Pickle::read_objects(bytes, allows).is_err(), "{bytes:?}");
        }
    }

    proptest! {
        /// Only checks that reading returns: a panic or abort fails the test.
        #[test]
        fn any_bytes_are_values_or_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..400)) {
            let _ = Pickle::read(bytes.as_slice());
            let _ = Pickle::read_objects(bytes.as_slice(), |_, _| true);
        }

        /// Opcodes only; random bytes rarely form any.
        #[test]
        fn any_opcodes_are_values_or_an_error(
            codes in proptest::collection::vec(proptest::sample::select(b"(]})0123eaudsthqKMRbQc\x93\n\x94\x85\x86\x87\x8a\x8cN.".to_vec()), 0..200),
        ) {
            let _ = Pickle::read(codes.as_slice());
            let _ = Pickle::read_objects(codes.as_slice(), |_, _| true);
        }
    }
}
