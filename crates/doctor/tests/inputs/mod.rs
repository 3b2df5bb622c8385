//! Generated logs: each is a function of a number and the same on every machine.
//!
//! Shared by the test, which tries some of them, and `examples/fuzz.rs`, which tries them for any
//! length of time.

use fitgpt_doctor::{Context, Diagnosis, diagnose, parse::Reader};
use fitgpt_program::hash::{SPLITMIX_STEP, splitmix64};

/// A stream of pseudo-random numbers (`SplitMix64` by Steele, Lea and Flood).
pub(crate) struct Numbers(u64);

impl Numbers {
    /// The stream for a seed.
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(SPLITMIX_STEP))
    }

    fn next(&mut self) -> u64 {
        let number = splitmix64(self.0);
        self.0 = self.0.wrapping_add(SPLITMIX_STEP);
        number
    }

    /// Less than `end`; 0 if `end` is 0.
    fn below(&mut self, end: usize) -> usize {
        (self.next() % (end.max(1) as u64)) as usize
    }

    /// Short lengths are more frequent.
    fn length(&mut self, longest: usize) -> usize {
        let bits = self.below(longest.max(1).ilog2() as usize + 1);
        self.below((2 << bits).min(longest) + 1)
    }

    fn pick<'a, T: ?Sized>(&mut self, list: &[&'a T]) -> &'a T {
        list[self.below(list.len())]
    }
}

/// Words that the parser searches for, and their surroundings.
const WORDS: &[&str] = &[
    "CUDA out of memory. Tried to allocate ",
    " GiB",
    " MiB",
    " bytes",
    "(GPU 0; ",
    " total capacity; ",
    " already allocated; ",
    " free; ",
    " reserved in total by PyTorch)",
    "GPU 0 has a total capacity of ",
    " of which ",
    " is free. ",
    "Including non-PyTorch memory, this process has ",
    " memory in use. ",
    "Process 12 has ",
    "Of the allocated memory ",
    " is allocated by PyTorch, and ",
    " is reserved by PyTorch but unallocated.",
    "memory allocation failed with OOM on device 0 while trying to allocate ",
    "Allocation on device 0 would exceed allowed memory. (out of memory)",
    "Currently allocated : ",
    "Device limit : ",
    "on device 0: cudaMalloc failed: out of memory",
    "allocating ",
    "Free memory on device (1.0/2.0 GiB) on startup is less than desired GPU memory utilization (0.9, ",
    "max seq len (",
    " KV cache is needed, which is larger than the available KV cache memory (",
    "Not enough memory to handle ",
    " prefill tokens",
    "gpu_memory_utilization=0.",
    "--per_device_train_batch_size ",
    "max_length=",
    "all params: ",
    " Million params",
    "Llama-2-",
    "7b",
    "torch==2.",
    "| Allocated memory      |   ",
    "MiB / ",
    "| 0 N/A N/A 12 C python ",
    "anon-rss:",
    "kB (",
    "deepspeed ",
    "vllm ",
    "total allocation: ",
    "nested_concat(",
    "state_dict()",
    "-> 12 ",
    "MPS backend out of memory (MPS allocated: ",
    "RESOURCE_EXHAUSTED: Out of memory while trying to allocate ",
    "Resource exhausted: Failed to allocate request for ",
    "OOM when allocating tensor with shape[",
    "] and type float on device:GPU:0",
    "out of resource: shared memory, Required: ",
    "DefaultCPUAllocator: can't allocate memory: you tried to allocate ",
    "empty_strided_cuda((",
    "), (1, 1), torch.bfloat16)",
    "Out of memory: Killed process ",
    "Killed\n",
    "exit code 137\n",
    "Traceback (most recent call last):\n",
    "  File \"train.py\", line ",
    ", in <module>\n",
    "    logits, loss = model(X, Y)\n",
    "    losses = estimate_loss()\n",
    "    loss.backward()\n",
    "    optimizer.step()\n",
    "---> 12 ",
    "<ipython-input-3-ab> in <module>\n",
    "Cell In[3], line 4\n",
    "❱ 264 │ ",
    "│ ",
    "> ",
    "[rank0]: ",
    "[rank4294967295]: ",
    "\u{1b}[31m",
    "\u{1b}]0;",
    "Overriding: n_layer = ",
    "Overriding: batch_size = ",
    "Overriding: n_embd = ",
    "Overriding: block_size = ",
    "Overriding config with a.py:\n",
    "python train.py config/train_gpt2.py --n_head=",
    "step ",
    "iter ",
    ": loss 1.0, time 1ms\n",
    "number of parameters: ",
    "tokens per iteration will be: ",
    "found vocab_size = ",
    "Initializing from OpenAI GPT-2 weights: gpt2-xl\n",
    "Resuming training from out\n",
    "compiling the model...\n",
    "[[node gradients/model/h0 ",
    "显存不足",
    "\n",
    "\r",
    " ",
    ", ",
];

/// Numbers that may overflow.
const SIZES: &[&str] = &[
    "0",
    "1",
    "2.00",
    "20.00",
    "394.00",
    "6.14",
    "17179869184.00",
    "18446744073709551615",
    "18446744073709551616",
    "999999999999999999999999999999",
    "0.000000000000000000001",
    "1e308",
    "-1",
    ".",
    "1.2.3",
    "4294967295",
    "4294967296",
    "1152921504606846975",
    "50304",
    "1024",
    "63",
];

/// One log, possibly derived from the examples.
pub(crate) fn log(numbers: &mut Numbers, examples: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = match numbers.below(9) {
        0 => random(numbers),
        1 => soup(numbers),
        2 => repeated(numbers),
        3 => nested(numbers),
        4 => spliced(numbers, examples),
        5 => wide(&example(numbers, examples)),
        _ => example(numbers, examples),
    };
    for _ in 0..numbers.length(64) {
        mutate(numbers, &mut bytes);
    }
    bytes
}

fn random(numbers: &mut Numbers) -> Vec<u8> {
    (0..numbers.length(1 << 16)).map(|_| numbers.next() as u8).collect()
}

/// Words and numbers in any order.
fn soup(numbers: &mut Numbers) -> Vec<u8> {
    let mut text = String::new();
    for _ in 0..numbers.length(2000) {
        let list = if numbers.below(3) == 0 { SIZES } else { WORDS };
        text.push_str(numbers.pick(list));
    }
    text.into_bytes()
}

/// One word repeated without a line break.
fn repeated(numbers: &mut Numbers) -> Vec<u8> {
    let word = numbers.pick(WORDS).replace('\n', "");
    word.repeat(numbers.length(1 << 20) / word.len().max(1)).into_bytes()
}

fn nested(numbers: &mut Numbers) -> Vec<u8> {
    let opening = ["(", "[", "{", "> ", "│ ", "[rank0]: ", "[", "((", "File \""];
    let mut text = numbers.pick(&opening).repeat(numbers.length(1 << 14));
    text.push_str(numbers.pick(WORDS));
    text.into_bytes()
}

fn example(numbers: &mut Numbers, examples: &[Vec<u8>]) -> Vec<u8> {
    examples.get(numbers.below(examples.len())).cloned().unwrap_or_default()
}

fn spliced(numbers: &mut Numbers, examples: &[Vec<u8>]) -> Vec<u8> {
    let (mut first, second) = (example(numbers, examples), example(numbers, examples));
    first.truncate(numbers.below(first.len() + 1));
    first.extend(&second[numbers.below(second.len() + 1)..]);
    first
}

/// UTF-16, as a Windows shell writes it.
fn wide(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| [*byte, 0]).collect()
}

fn mutate(numbers: &mut Numbers, bytes: &mut Vec<u8>) {
    const LONGEST: usize = 1 << 21;
    let at = numbers.below(bytes.len() + 1);
    let end = (at + numbers.length(200)).min(bytes.len());
    match numbers.below(8) {
        0 => bytes[at..end].iter_mut().for_each(|byte| *byte ^= 1 << numbers.below(8)),
        1 => drop(bytes.drain(at..end)),
        2 => insert(bytes, at, numbers.pick(WORDS).as_bytes()),
        3 => insert(bytes, at, numbers.pick(SIZES).as_bytes()),
        4 => insert(bytes, at, &[0; 7]),
        5 => insert(bytes, at, &[0xFF, 0xC3, 0xE2, 0x82]),
        6 if bytes.len() < LONGEST => {
            let piece = bytes[at..end].to_vec();
            insert(bytes, at, &piece);
        }
        _ => {
            // Replace a number.
            let digits = |byte: &u8| byte.is_ascii_digit();
            if let Some(start) = bytes[at..].iter().position(digits).map(|n| at + n) {
                let count = bytes[start..].iter().take_while(|byte| digits(byte)).count();
                let number = numbers.pick(SIZES).bytes();
                drop(bytes.splice(start..start + count, number));
            }
        }
    }
}

fn insert(bytes: &mut Vec<u8>, at: usize, piece: &[u8]) {
    drop(bytes.splice(at..at, piece.iter().copied()));
}

/// Diagnoses a log, read in chunks of any size, with any config.
pub(crate) fn examine(numbers: &mut Numbers, bytes: &[u8]) -> Diagnosis {
    let mut reader = Reader::default();
    let mut rest = bytes;
    while !rest.is_empty() {
        let (piece, after) = rest.split_at((numbers.length(1 << 16) + 1).min(rest.len()));
        reader.push(piece);
        rest = after;
    }
    let mut case = Context::new();
    let keys = ["batch_size", "n_layer", "n_head", "n_embd", "block_size", "vocab_size", "dtype"];
    for _ in 0..numbers.below(4) {
        let bits = numbers.below(33);
        let value = numbers.below(1 << bits).to_string();
        case.set(numbers.pick(&keys), &value);
    }
    diagnose(&reader.finish(), &case)
}
