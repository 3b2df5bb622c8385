//! Messages with numbers, as each framework and version words them.

use std::sync::LazyLock;

use super::{
    message::{Element, Message, PrintedShape, Wording},
    phrases::Phrases,
    size::{PrintedSize, size_after},
    squeezed::{Occurrence, Offset, Passage, first_of, last_of},
};
use crate::facts::MemoryKind;

/// Reads the message around a phrase; `None` if it is not one.
type MessageReader = fn(&Occurrence<'_>) -> Option<Message>;

/// The phrases of messages with numbers, without white space.
static PHRASES: LazyLock<Phrases<MessageReader>> = LazyLock::new(|| {
    let phrases: [(&str, MessageReader); 26] = [
        ("triedtoallocate", tried),
        ("memoryallocationfailedwithoomondevice", |place| Some(exact(place))),
        ("resource_exhausted:", exhausted),
        ("resourceexhausted:", exhausted),
        ("resourceexhaustederror:", exhausted),
        ("oomwhenallocatingtensorwithshape[", |place| Some(tensor_flow(place))),
        ("oomwhenallocatingtensorofshape[", |place| Some(tensor_flow(place))),
        ("allocationfailedforsize::", |place| Some(habana(place))),
        ("outofmemoryerrorongpu", |place| Some(paddle(place))),
        ("enforceallocating<=availablefailed,", |place| Some(old_paddle(place))),
        ("failedtoallocatememoryforrequestedbufferofsize", |place| Some(onnx_runtime(place))),
        ("outofresource:", |place| Some(triton(place))),
        ("unabletoallocate", numpy),
        ("outofmemorytoallocate", cupy),
        ("wouldexceedallowedmemory", |place| Some(would_exceed(place))),
        ("cudamallocfailed:outofmemory", |place| Some(ggml(place))),
        ("devicememoryallocationofsize", ggml_bytes),
        ("bufferofsize", ggml_bytes),
        // Servers that check sizes before they allocate.
        ("onstartupislessthandesiredgpumemoryutilization", |place| Some(server(place))),
        ("kvcacheisneeded", |place| Some(server(place))),
        ("noavailablememoryforthecacheblocks", |place| Some(server(place))),
        ("islargerthanthemaximumnumberoftokensthatcanbestoredinkvcache", |place| {
            Some(server(place))
        }),
        ("pleasetrytoincrease--mem-fraction-static", |place| Some(server(place))),
        ("notenoughmemorytohandle", |place| Some(server(place))), // so many prefill tokens
        ("prefilloutofmemory.trytoloweryourbatchsize", |place| Some(server(place))),
        ("decodeoutofmemory.trytoloweryourbatchsize", |place| Some(server(place))),
    ];
    Phrases::new(phrases)
});

/// Every message that begins in `passage`.
pub(super) fn messages(passage: Passage<'_>, found: impl FnMut(Message)) {
    PHRASES.find(passage).filter_map(|(_, read, place)| read(&place)).for_each(found);
}

fn habana(place: &Occurrence<'_>) -> Message {
    let mut message = Message::new(place.at, Wording::Habana, MemoryKind::GpuMemory);
    message.requested = leading_number(place.after).map(PrintedSize::exact);
    message
}

/// `PaddlePaddle` before version 1.6.
fn old_paddle(place: &Occurrence<'_>) -> Message {
    let mut message = Message::new(place.at, Wording::Paddle, MemoryKind::GpuMemory);
    message.requested = leading_number(place.after).map(PrintedSize::exact);
    message.free = number_after(first_of(place.after, 60), ">").map(PrintedSize::exact);
    message
}

/// llama.cpp on any backend; the number of bytes follows.
fn ggml_bytes(place: &Occurrence<'_>) -> Option<Message> {
    if place.before.ends_with("requested") {
        return None; // ONNX Runtime
    }
    let is_failed = first_of(place.after, 40).contains("failed")
        || last_of(place.before, 40).contains("failedtoallocate");
    let bytes = leading_number(place.after).filter(|_| is_failed)?;
    let near = last_of(place.before, 60);
    let is_host = near.ends_with("cpu") || near.contains("cpu_buffer");
    let memory = if is_host { MemoryKind::HostMemory } else { MemoryKind::GpuMemory };
    let mut message = Message::new(place.at, Wording::Ggml, memory);
    message.requested = Some(PrintedSize::exact(bytes));
    Some(message)
}

/// vLLM and SGLang: what they need and what is available.
fn server(place: &Occurrence<'_>) -> Message {
    let mut message = Message::new(place.at, Wording::Server, MemoryKind::GpuMemory);
    let (before, after) = (last_of(place.before, 200), first_of(place.after, 200));
    // `Free memory on device (67.24/79.25 GiB)`: one unit for both.
    if let Some((_, pair)) = before
        .rsplit_once("ondevice")
        .filter(|_| after.starts_with("(0.") || after.starts_with("(1."))
        && let Some((free, total)) =
            pair.trim_start_matches(|c| c != '(').trim_start_matches('(').split_once('/')
    {
        let unit = total.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.');
        let unit: String = unit.chars().take_while(char::is_ascii_alphabetic).collect();
        message.free = PrintedSize::at_start(&format!("{free}{unit}")).map(|(size, _)| size);
        message.total = PrintedSize::at_start(total).map(|(size, _)| size);
        message.available = message.free;
        message.wanted = after
            .split_once(',')
            .and_then(|(_, rest)| PrintedSize::at_start(rest))
            .map(|(size, _)| size);
    }
    if after.starts_with(",whichislargerthantheavailable") {
        message.wanted = PrintedSize::at_end(before);
        message.available = size_after(after, "kvcachememory(");
    }
    message.tokens = number_after(before, "maxseqlen(");
    if after.contains("prefilltokens") {
        message.tokens = leading_number(after);
    }
    message
}

/// ComfyUI and others with `cudaMallocAsync`.
fn would_exceed(place: &Occurrence<'_>) -> Message {
    let own = first_of(place.after, 400);
    let mut message = Message::new(place.at, Wording::TorchAsync, MemoryKind::GpuMemory);
    message.allocated = size_after(own, "currentlyallocated:");
    message.requested = size_after(own, "requested:");
    message.total = size_after(own, "devicelimit:");
    message.free = size_after(own, "free(accordingtocuda):");
    message
}

/// llama.cpp: `allocating 35533.34 MiB on device 0: cudaMalloc failed: out of memory`.
fn ggml(place: &Occurrence<'_>) -> Message {
    let before = last_of(place.before, 120);
    let mut message = Message::new(place.at, Wording::Ggml, MemoryKind::GpuMemory);
    message.requested = before
        .rsplit_once("allocating")
        .and_then(|(_, rest)| PrintedSize::at_start(rest))
        .map(|(size, _)| size);
    message
}

/// PyTorch's message, of any version and device.
fn tried(place: &Occurrence<'_>) -> Option<Message> {
    let own = own_part(place.after);
    let mut message = Message::new(place.at, Wording::TorchBare, MemoryKind::GpuMemory);
    message.requested = PrintedSize::at_start(own).map(|(size, _)| size);
    // An overflow: 2⁶⁴ bytes are printed as 17179869184 GiB.
    let digits = own.bytes().take_while(u8::is_ascii_digit).count();
    if own.starts_with("morethan1ebmemory") || message.requested.is_none() && digits >= 10 {
        message.requested = Some(PrintedSize::exact(1 << 60));
    }
    // Only the CPU allocator says "you tried to".
    let is_host =
        place.before.ends_with("you") || last_of(place.before, 400).contains("defaultcpuallocator");
    if is_host {
        message.wording = Wording::CpuAllocator;
        message.memory = MemoryKind::HostMemory;
        return message.requested.is_some().then_some(message);
    }
    if message.requested.is_none() {
        // The message is cut off before its number, or this is prose.
        message.wording = Wording::NoNumbers;
        return place.before.ends_with("outofmemory.").then_some(message);
    }
    let head = last_of(place.before, 250);
    if let Some(at) = head.rfind("mpsbackendoutofmemory") {
        let head = &head[at..];
        message.wording = Wording::Mps;
        message.allocated = size_after(head, "mpsallocated:");
        message.total = size_after(head, "maxallowed:");
        let other = size_after(head, "otherallocations:");
        message.other = other;
        if let (Some(total), Some(held)) = (message.total, message.allocated) {
            let held = other.map_or(held, |other| held.plus(other));
            message.free = Some(total.minus(held));
        }
        return Some(message);
    }
    if own.contains("totalcapacity;") {
        message.wording = Wording::Torch1;
        message.total = size_before(own, "totalcapacity");
        message.allocated = size_before(own, "alreadyallocated");
        message.free = size_before(own, "free");
        message.reserved =
            size_before(own, "reservedintotal").or_else(|| cached(own, message.allocated));
        message.allowed = size_before(own, "allowed");
        return Some(message);
    }
    // The typo is in PyTorch 2.1.
    let total = ["totalcapacityof", "totalcapactyof"].iter().find_map(|w| size_after(own, w));
    if total.is_some() || own.contains("isallocatedbypytorch") {
        message.wording = Wording::Torch2;
        message.total = total;
        message.free = size_after(own, "ofwhich").or_else(|| size_before(own, "isfree"));
        message.process = size_after(own, "thisprocesshas").filter(|size| size.bytes > 0);
        message.processes = processes(own);
        message.allowed = size_before(own, "allowed;");
        message.allocated = size_before(own, "isallocatedbypytorch");
        message.pools = size_before(own, "allocatedinprivatepools");
        message.unallocated = size_before(own, "isreservedbypytorchbutunallocated");
        message.reserved = match (message.allocated, message.unallocated) {
            (Some(allocated), Some(unallocated)) => Some(allocated.plus(unallocated)),
            _ => None,
        };
    } else {
        // Abbreviated by a user: `GPU had 12.44 GiB free of 79.19`, `8 GiB total, 7 GiB allocated`.
        let own = first_of(own, 200);
        message.free = size_before(own, "free");
        message.total = size_before(own, "total");
        message.allocated =
            size_before(own, "alreadyallocated").or_else(|| size_before(own, "allocated"));
    }
    Some(message)
}

/// Up to PyTorch 1.3, "cached" is the memory that held no tensor.
fn cached(own: &str, allocated: Option<PrintedSize>) -> Option<PrintedSize> {
    Some(allocated?.plus(size_before(own, "cached")?))
}

/// Every `Process 1234 has 1.97 GiB memory in use.`
fn processes(own: &str) -> Vec<(u64, PrintedSize)> {
    const MOST: usize = 64;
    let named = own.match_indices("process").filter_map(|(at, word)| {
        let rest = &own[at + word.len()..];
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let pid = rest[..digits].parse().ok()?;
        let rest = rest[digits..].strip_prefix("has")?;
        let (size, rest) = PrintedSize::at_start(rest)?;
        (rest.starts_with("memoryinuse") && size.bytes > 0).then_some((pid, size))
    });
    named.take(MOST).collect()
}

fn exact(place: &Occurrence<'_>) -> Message {
    let own = own_part(place.after);
    let mut message = Message::new(place.at, Wording::TorchExact, MemoryKind::GpuMemory);
    message.requested = number_after(own, "tryingtoallocate").map(PrintedSize::exact);
    message.free = number_after(own, "free:").map(PrintedSize::exact);
    message.total = number_after(own, "total:").map(PrintedSize::exact);
    message
}

/// `Out of memory error on GPU 0. Cannot allocate 98.0MB memory on GPU 0, 6.0GB memory has been
/// allocated and available memory is only 0.0B.`
fn paddle(place: &Occurrence<'_>) -> Message {
    let own = first_of(place.after, 300);
    let mut message = Message::new(place.at, Wording::Paddle, MemoryKind::GpuMemory);
    message.requested = size_after(own, "cannotallocate");
    message.allocated = size_before(own, "memoryhasbeenallocated");
    message.free = size_after(own, "availablememoryisonly");
    if own.contains("availablememoryisonly0.000000b") {
        message.free = Some(PrintedSize::exact(0));
    }
    message
}

/// ONNX Runtime's arena, which exists for GPUs and for the host; the message does not say which.
/// Only the CPU has kernels for the blocked layout.
fn onnx_runtime(place: &Occurrence<'_>) -> Message {
    let near = [last_of(place.before, 1500), first_of(place.after, 300)];
    let is_host = near.iter().any(|text| {
        ["_nchwc", "cpuexecutionprovider'"].iter().any(|sign| text.contains(sign))
            && !text.contains("cuda")
    });
    let memory = if is_host { MemoryKind::HostMemory } else { MemoryKind::GpuMemory };
    let mut message = Message::new(place.at, Wording::OnnxRuntime, memory);
    let is_number = place.after.starts_with(|c: char| c.is_ascii_digit());
    // A number of 19 digits comes from a wrong shape.
    let bytes = leading_number(place.after).unwrap_or(1 << 60);
    message.requested = is_number.then_some(PrintedSize::exact(bytes));
    message
}

/// XLA. Quota errors of web services use the same status, but do not mention memory.
fn exhausted(place: &Occurrence<'_>) -> Option<Message> {
    let own = first_of(place.after, 300);
    let sentence = first_of(own, 120);
    if ["memory", "allocat", "oom"].iter().all(|word| !sentence.contains(word)) {
        return None;
    }
    let mut message = Message::new(place.at, Wording::Jax, MemoryKind::GpuMemory);
    for words in ["tryingtoallocate", "memoryallocating", "memorywhenallocating", "requestfor"] {
        let size = size_after(own, words);
        let number = number_after(own, words).map(PrintedSize::exact);
        message.requested = message.requested.or(size).or(number);
    }
    // A TPU: `Used 21.90G of 7.48G hbm`.
    let used = own.split_once("hbm.used").and_then(|(_, rest)| rest.split_once("of"));
    if let Some((_, rest)) = used
        && let Some((limit, _)) = rest.split_once("ghbm")
    {
        message.total = PrintedSize::at_start(&format!("{limit}gib")).map(|(size, _)| size);
    }
    if own.starts_with("oomwhenallocatingtensor") {
        message.wording = Wording::Word; // TensorFlow's own message follows
    }
    Some(message)
}

fn tensor_flow(place: &Occurrence<'_>) -> Message {
    let own = first_of(place.after, 300);
    let is_host = own.contains("device:cpu");
    let memory = if is_host { MemoryKind::HostMemory } else { MemoryKind::GpuMemory };
    let mut message = Message::new(place.at, Wording::TensorFlow, memory);
    let axes = own.split_once(']').map(|(list, rest)| (axes(list), rest));
    let mut is_written = true;
    if let Some((Some(axes), rest)) = axes {
        // Old versions do not print the type, which is most often this one.
        let written = rest.strip_prefix("andtype");
        let dtype = written.map_or(dtype("float32"), dtype);
        is_written = written.is_some();
        let op = node(rest);
        message.shape = dtype.map(|dtype| PrintedShape { axes, dtype, op, is_part: false });
    }
    let bytes = message.shape.as_ref().and_then(PrintedShape::bytes);
    message.requested = bytes.filter(|_| is_written).map(PrintedSize::exact);
    message
}

/// The first node that TensorFlow names: `[[node A/B (defined at …`, `[[{{node A/B}}]]`, `[Op:Mul]`.
fn node(text: &str) -> String {
    let starts = ["[[{{node", "[[node:", "[[node", "[op:"];
    let found = starts.iter().filter_map(|start| Some((text.find(start)?, *start)));
    let Some((at, start)) = found.min_by_key(|(at, start)| (*at, std::cmp::Reverse(start.len())))
    else {
        return String::new();
    };
    let name = &text[at + start.len()..];
    name.split(['(', '}', '=', ']']).next().unwrap_or_default().to_owned()
}

/// `Unable to allocate 17.6 GiB for an array with shape …`.
fn numpy(place: &Occurrence<'_>) -> Option<Message> {
    let mut message = Message::new(place.at, Wording::HostOther, MemoryKind::HostMemory);
    let sized = PrintedSize::at_start(place.after);
    message.requested = sized.map(|(size, _)| size);
    // Old versions print the shape alone.
    let rest = match sized {
        Some((_, rest)) => rest.strip_prefix("foranarray")?,
        None => place.after.strip_prefix("array").filter(|rest| rest.starts_with("withshape("))?,
    };
    // `with shape (512, 16, 3) and data type float32`
    message.shape = rest.strip_prefix("withshape(").and_then(|rest| {
        let (list, rest) = rest.split_once(')')?;
        let dtype = dtype(rest.strip_prefix("anddatatype")?)?;
        Some(PrintedShape { axes: axes(list)?, dtype, op: String::new(), is_part: false })
    });
    let bytes = message.shape.as_ref().and_then(PrintedShape::bytes);
    message.requested = message.requested.or(bytes.map(PrintedSize::exact));
    Some(message)
}

/// `CuPy`: `out of memory to allocate 200000000000 bytes (total 200000004096 bytes)`.
fn cupy(place: &Occurrence<'_>) -> Option<Message> {
    let bytes = leading_number(place.after)?;
    let mut message = Message::new(place.at, Wording::NoNumbers, MemoryKind::GpuMemory);
    message.requested = Some(PrintedSize::exact(bytes));
    Some(message)
}

fn triton(place: &Occurrence<'_>) -> Message {
    let own = first_of(place.after, 300);
    let mut message = Message::new(place.at, Wording::Triton, MemoryKind::SharedMemory);
    let numbers = (number_after(own, "required:"), number_after(own, "hardwarelimit:"));
    message.shared = numbers.0.zip(numbers.1).map(|(required, limit)| [required, limit]);
    message
}

/// The text of this message, up to the next message.
fn own_part(after: &str) -> &str {
    const LONGEST: usize = 3000;
    let own = first_of(after, LONGEST);
    let next = ["triedtoallocate", "memoryallocationfailedwithoom", "traceback(mostrecent"];
    let end = next.iter().filter_map(|words| own.find(words)).min();
    &own[..end.unwrap_or(own.len())]
}

/// The size right before the first `words` that have one.
fn size_before(text: &str, words: &str) -> Option<PrintedSize> {
    text.match_indices(words).find_map(|(at, _)| PrintedSize::at_end(&text[..at]))
}

fn number_after(text: &str, words: &str) -> Option<u64> {
    leading_number(text.split_once(words)?.1)
}

fn leading_number(text: &str) -> Option<u64> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    text[..digits].parse().ok().filter(|number| *number < u64::MAX >> 4)
}

/// `65536,50304` as axes.
fn axes(list: &str) -> Option<Vec<u64>> {
    const MOST: usize = 8;
    let parts: Vec<_> = list.trim_end_matches(',').split(',').take(MOST + 1).collect();
    if parts.len() > MOST {
        return None;
    }
    parts.into_iter().map(|part| part.parse().ok()).collect()
}

/// Names of types in TensorFlow, PyTorch, numpy and XLA. Longer ones come first.
const TYPES: &[(&str, &str, u64)] = &[
    ("bfloat16", "bfloat16", 2),
    ("bf16", "bfloat16", 2),
    ("float16", "float16", 2),
    ("half", "float16", 2),
    ("f16", "float16", 2),
    ("float32", "float32", 4),
    ("float64", "float64", 8),
    ("double", "float64", 8),
    ("float", "float32", 4),
    ("f32", "float32", 4),
    ("f64", "float64", 8),
    ("int64", "int64", 8),
    ("uint64", "uint64", 8),
    ("int32", "int32", 4),
    ("uint32", "uint32", 4),
    ("int16", "int16", 2),
    ("uint16", "uint16", 2),
    ("int8", "int8", 1),
    ("uint8", "uint8", 1),
    ("bool", "bool", 1),
    ("complex64", "complex64", 8),
    ("complex128", "complex128", 16),
    ("s64", "int64", 8),
    ("s32", "int32", 4),
    ("u32", "uint32", 4),
    ("s8", "int8", 1),
    ("u8", "uint8", 1),
    ("pred", "bool", 1),
];

fn dtype(text: &str) -> Option<Element> {
    let found = TYPES.iter().find(|(name, ..)| text.starts_with(name));
    found.map(|(_, name, bytes)| Element { name, bytes: *bytes })
}

static ALLOCATIONS: LazyLock<Phrases<()>> = LazyLock::new(|| Phrases::new([("empty_strided", ())]));

/// Every allocation in the source of generated code:
/// `buf7 = empty_strided_cuda((65536, 50304), (50304, 1), torch.bfloat16)`.
pub(super) fn made(passage: Passage<'_>, mut found: impl FnMut(Offset, PrintedShape)) {
    for (_, (), place) in ALLOCATIONS.find(passage) {
        let own = first_of(place.after, 300);
        let own = ["_cuda", "_xpu", "_mps"].iter().find_map(|d| own.strip_prefix(d)).unwrap_or(own);
        let shape = own.strip_prefix("((").and_then(|rest| {
            let (list, rest) = rest.split_once(')')?;
            let dtype = dtype(rest.split_once("torch.")?.1)?;
            Some(PrintedShape { axes: axes(list)?, dtype, op: String::new(), is_part: false })
        });
        if let Some(shape) = shape {
            found(place.at, shape);
        }
    }
}

static BUFFERS: LazyLock<Phrases<()>> = LazyLock::new(|| {
    Phrases::new([("peakbuffers:buffer1:", ()), ("largestprogramallocationsinhbm:1.", ())])
});

/// The largest buffer that XLA lists: `Shape: bf16[128,6,256,256]`, with its operator.
pub(super) fn largest(passage: Passage<'_>, mut found: impl FnMut(PrintedShape)) {
    for (_, (), place) in BUFFERS.find(passage) {
        let own = first_of(place.after, 2000);
        let end = ["buffer2:", "====="].iter().filter_map(|next| own.find(next)).min();
        let own = &own[..end.unwrap_or(own.len())];
        let shape = own.split_once("shape:").and_then(|(before, rest)| {
            let (kind, rest) = rest.split_once('[')?;
            let dtype = dtype(kind)?;
            let axes = axes(rest.split_once(']')?.0)?;
            let op = before.split_once("op_name=\"").map_or("", |(_, rest)| rest);
            let op = op.split('"').next().unwrap_or_default().to_owned();
            Some(PrintedShape { axes, dtype, op, is_part: true })
        });
        shape.into_iter().for_each(&mut found);
    }
}
