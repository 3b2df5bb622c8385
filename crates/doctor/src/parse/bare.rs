//! Messages without numbers, which say only that memory ran out and sometimes which.

use std::sync::LazyLock;

use super::{
    message::{Message, Wording},
    phrases::Phrases,
    prose,
    size::{PrintedSize, size_after},
    squeezed::{Occurrence, Offset, Passage, first_of, last_of},
};
use crate::facts::MemoryKind::{self, GpuMemory as Gpu, HostMemory as Host, Unknown};

/// Phrases that always mean it, without white space.
const PLAIN: &[(&str, Wording, MemoryKind)] = &[
    ("cublas_status_alloc_failed", Wording::Cublas, Gpu),
    ("cudnn_status_alloc_failed", Wording::Cublas, Gpu),
    ("cudaerrormemoryallocation", Wording::NoNumbers, Gpu),
    ("hiperroroutofmemory", Wording::NoNumbers, Gpu),
    ("hip_error_outofmemory", Wording::NoNumbers, Gpu),
    ("failedtocudacalloc", Wording::NoNumbers, Gpu),
    // ComfyUI with `cudaMallocAsync`.
    ("allocationondevice", Wording::NoNumbers, Gpu),
    // Level Zero, Vulkan and OpenCL.
    ("error_out_of_device_memory", Wording::NoNumbers, Gpu),
    ("erroroutofdevicememory", Wording::NoNumbers, Gpu),
    ("error_out_of_resources", Wording::NoNumbers, Gpu),
    ("cl_out_of_resources", Wording::NoNumbers, Gpu),
    ("cl_mem_object_allocation_failure", Wording::NoNumbers, Gpu),
    ("error_out_of_host_memory", Wording::HostOther, Host),
    ("erroroutofhostmemory", Wording::HostOther, Host),
    // XLA on a TPU.
    ("exceededhbmcapacity", Wording::Jax, Gpu),
    ("programhbmrequirement", Wording::Jax, Gpu),
    ("rocblas_status_memory_error", Wording::Cublas, Gpu),
    // Notebooks print the bare name of the error above a traceback.
    ("resourceexhaustederrortraceback(mostrecent", Wording::NoNumbers, Gpu),
    ("outofcudamemory", Wording::Word, Gpu),
    ("outofgpumemory", Wording::Word, Gpu),
    ("outofvram", Wording::Word, Gpu),
    ("显存不足", Wording::Word, Gpu),
    ("显存溢出", Wording::Word, Gpu),
    ("显存不够", Wording::Word, Gpu),
    ("爆显存", Wording::Word, Gpu),
    ("显存爆", Wording::Word, Gpu),
    ("modelstilldoesn'tfit", Wording::Word, Gpu),
    ("modeldoesn'tfit", Wording::Word, Gpu),
    ("modeldoesnotfit", Wording::Word, Gpu),
    ("modelwon'tfit", Wording::Word, Gpu),
    ("doesn'tfitinvram", Wording::Word, Gpu),
    ("doesnotfitinvram", Wording::Word, Gpu),
    ("doesn'tfitonthegpu", Wording::Word, Gpu),
    ("doesnotfitonthegpu", Wording::Word, Gpu),
    // Typing errors.
    ("outofmemeory", Wording::Word, Unknown),
    ("outofmemroy", Wording::Word, Unknown),
    ("outofmemery", Wording::Word, Unknown),
    ("outofmomory", Wording::Word, Unknown),
    ("显存装不下", Wording::Word, Gpu),
    ("显存放不下", Wording::Word, Gpu),
    ("显存跑不下", Wording::Word, Gpu),
    ("defaultcpuallocator:", Wording::CpuAllocator, Host),
    ("std::bad_alloc", Wording::HostOther, Host),
    ("_arraymemoryerror", Wording::HostOther, Host),
    ("cannotallocatememory", Wording::HostOther, Host),
    ("unabletomapmemory", Wording::HostOther, Host),
    ("cudahostalloc", Wording::PageLocked, Host),
    ("couldnotallocatepinnedhostmemory", Wording::PageLocked, Host),
    // Ray watches the memory of a machine and kills its own workers.
    ("killedduetomemorypressure", Wording::HostOther, Host),
    ("killedduetothenoderunninglowonmemory", Wording::HostOther, Host),
    ("rayoutofmemoryerror", Wording::HostOther, Host),
    // Ollama.
    ("requiresmoresystemmemory", Wording::HostOther, Host),
    ("notenoughavailablememorytorunthismodel", Wording::NoNumbers, Unknown),
    ("youmaynothaveenoughavailablememory", Wording::NoNumbers, Unknown),
    ("oom-kill", Wording::HostOther, Host),
    ("oom_kill", Wording::HostOther, Host),
    ("oomkilled", Wording::HostOther, Host),
    ("exceededjobmemorylimit", Wording::HostOther, Host),
    ("exceededstepmemorylimit", Wording::HostOther, Host),
    // The files through which data loader workers pass batches, not a multiprocessor's memory.
    ("insufficientsharedmemory(shm)", Wording::DevShm, Host),
    ("workersareoutofsharedmemory", Wording::DevShm, Host),
    ("unabletowritetofile</torch_", Wording::DevShm, Host),
    ("killedbysignal:buserror", Wording::DevShm, Host),
    ("unabletoopensharedmemoryobject", Wording::DevShm, Host),
    // Batch generators report a dead worker without the reason.
    ("backgroundworkersarenolongeralive", Wording::WorkerDied, Host),
    // Windows, in several languages.
    ("pagingfileistoosmall", Wording::PagingFile, Host),
    ("winerror1455", Wording::PagingFile, Host),
    ("oserror1455", Wording::PagingFile, Host),
    ("页面文件太小", Wording::PagingFile, Host),
    ("頁面檔案太小", Wording::PagingFile, Host),
    ("auslagerungsdateiistzuklein", Wording::PagingFile, Host),
    ("ページングファイルが小さすぎ", Wording::PagingFile, Host),
    ("페이징파일이너무작", Wording::PagingFile, Host),
    ("fichierdepaginationestinsuffisant", Wording::PagingFile, Host),
    ("archivodepaginaciónesdemasiadopequeño", Wording::PagingFile, Host),
    ("айлподкачкислишкоммал", Wording::PagingFile, Host),
    // Apple's Metal driver.
    ("kiogpucommandbuffercallbackerroroutofmemory", Wording::Metal, Gpu),
    ("greaterthanthemaximumallowedbuffersize", Wording::Metal, Gpu),
    ("commandbufferexecutionfailed:insufficientmemory", Wording::Metal, Gpu),
    ("isgreaterthantherecommendedmaxworkingsetsize", Wording::Metal, Gpu),
    ("[malloc_or_wait]unabletoallocate", Wording::Metal, Gpu),
    ("[malloc]unabletoallocate", Wording::Metal, Gpu),
    ("[metal::malloc]resourcelimit", Wording::Metal, Gpu), // the number of buffers
    // Notebooks in a browser.
    ("crashedafterusingallavailableram", Wording::HostOther, Host),
    ("triedtoallocatemorememorythanisavailable", Wording::HostOther, Host),
];

/// Every one of them that begins in `passage`.
pub(super) fn messages(passage: Passage<'_>, mut found: impl FnMut(Message)) {
    for (_, phrase, place) in PHRASES.find(passage) {
        match *phrase {
            BarePhrase::OutOfMemory => out_of_memory(&place).into_iter().for_each(&mut found),
            BarePhrase::CannotAllocate => found(cannot_allocate(&place)),
            BarePhrase::CudaCode => found(cuda_code(&place)),
            BarePhrase::Plain(wording, memory) => found(Message::new(place.at, wording, memory)),
        }
    }
    prose::messages(passage, &mut found);
}

/// How a phrase is read.
#[derive(Clone, Copy)]
enum BarePhrase {
    OutOfMemory,
    CannotAllocate,
    /// The driver's code for a failed allocation.
    CudaCode,
    /// The phrase alone says it.
    Plain(Wording, MemoryKind),
}

static PHRASES: LazyLock<Phrases<BarePhrase>> = LazyLock::new(|| {
    let own = [
        ("outofmemory", BarePhrase::OutOfMemory),
        ("out-of-memory", BarePhrase::OutOfMemory),
        ("can'tallocatememory", BarePhrase::CannotAllocate),
        ("can’tallocatememory", BarePhrase::CannotAllocate),
        ("couldn'tallocatememory", BarePhrase::CannotAllocate),
        ("cuda_error_out_of_memory", BarePhrase::CudaCode),
    ];
    let plain = PLAIN.iter();
    let plain =
        plain.map(|(words, wording, memory)| (*words, BarePhrase::Plain(*wording, *memory)));
    Phrases::new(own.into_iter().chain(plain))
});

/// The driver reports a failed page-locked allocation with the same code.
fn cuda_code(place: &Occurrence<'_>) -> Message {
    if place.before.ends_with("onhost:") {
        return Message::new(place.at, Wording::PageLocked, Host);
    }
    Message::new(place.at, Wording::NoNumbers, Gpu)
}

/// Names of GPU software; if one is nearby, the message is about GPU memory.
const CARDS: [&str; 14] = [
    "cuda",
    "cublas",
    "cudnn",
    "nccl",
    "cumem",
    "gpu",
    "vram",
    "rocm",
    "hiperror",
    "xpu",
    "mpsbackend",
    "nvrtc",
    "torch.",
    "vulkan",
];

/// `can't allocate memory`, which operating systems print and users write.
fn cannot_allocate(place: &Occurrence<'_>) -> Message {
    let near = last_of(place.before, 40);
    let (wording, memory) = match () {
        () if near.ends_with("defaultcpuallocator:") => (Wording::CpuAllocator, Host),
        () if CARDS.iter().any(|name| near.contains(name)) => (Wording::NoNumbers, Gpu),
        () => (Wording::HostOther, Host),
    };
    Message::new(place.at, wording, memory)
}

/// `out of memory`, unless it is part of a message that another function reads.
fn out_of_memory(place: &Occurrence<'_>) -> Option<Message> {
    let before = last_of(place.before, 120);
    let after = first_of(place.after, 40);
    // `the GPU is not out of memory`
    if before.ends_with("isnot") || before.ends_with("wasnot") {
        return None;
    }
    let is_read_elsewhere = after.starts_with(".triedtoallocate")
        || after.starts_with("(mpsallocated")
        || after.starts_with("error:outofresource")
        || before.ends_with("cudamallocfailed:")
        || before.ends_with("cuda_error_out_of_memory:")
        || before.ends_with("wouldexceedallowedmemory.(")
        || before.ends_with("resource_exhausted:")
        || before.ends_with("resourceexhausted:")
        || after.starts_with("errorongpu")
        || before.ends_with("callbackerror") // of Metal, in the table
        || before.ends_with("hiperror") // these two are in the table
        || before.ends_with("hip_error_");
    if is_read_elsewhere {
        return None;
    }
    let is_kernels = after.starts_with(":killprocess") || after.starts_with(":killedprocess");
    if is_kernels || before.ends_with("java.lang.") {
        return Some(Message::new(place.at, Wording::HostOther, Host));
    }
    if after.starts_with("inmemoryspacehbm") {
        return Some(Message::new(place.at, Wording::Jax, Gpu));
    }
    if after.starts_with("whiletryingtoallocate") {
        // XLA's message inside another error.
        let mut message = Message::new(place.at, Wording::Jax, Gpu);
        let rest = &place.after["whiletryingtoallocate".len()..];
        message.requested = PrintedSize::at_start(rest).map(|(size, _)| size);
        return message.requested.is_some().then_some(message);
    }
    if first_of(place.after, 600).contains("thisisnotafailure") {
        return None; // TensorFlow tries a larger workspace first
    }
    let near = last_of(before, 40);
    let adjacent = [last_of(before, 12), first_of(after, 20)];
    if adjacent.iter().any(|text| prose::names_host(text) == Some(true)) {
        return Some(Message::new(place.at, Wording::Word, Host));
    }
    let is_gpu = CARDS.iter().any(|name| near.contains(name) || after.contains(name))
        || before.ends_with("hip")
        // llm.c prints file and line in between.
        || before.contains("[cudaerror]")
        // TensorRT names the function in between.
        || before.contains("cudaerrorin")
        // Notebooks print the bare name of the error above a traceback.
        || after.starts_with("errortraceback(mostrecent");
    let (wording, memory) =
        if is_gpu { (Wording::NoNumbers, Gpu) } else { (Wording::Word, Unknown) };
    let mut message = Message::new(place.at, wording, memory);
    if after.starts_with("tryingtoallocate") {
        message.requested = size_after(place.after, "tryingtoallocate");
    }
    Some(message)
}

/// Parts of words without which a line is no message of [`of_line`].
const SIGNS: [&str; 13] = [
    "kill",
    "137",
    "-9",
    "-7",
    "135",
    "bus",
    "signal",
    "memoryerror",
    "oom",
    "ram",
    "page",
    "paging",
    "unexpectedly",
];

/// Signal 9, without white space.
const KILL_CODES: [&str; 22] = [
    "exitcode137",
    "exitcode:137",
    "exitcode(137)",
    "exitcode=137",
    "exitedwithcode137",
    "exitstatus137",
    "statuscode137",
    "exitedwithexitcode137",
    "exitcode:-9",
    "exitcode-9",
    "errorcode-9",
    "errorcode9",
    "errorcode:-9",
    "exitcode=-9",
    "returncode-9",
    "returncode=-9",
    "signal9",
    "signal:9",
    "signals.sigkill",
    "signalsigkill",
    "bysignal:killed",
    "bysignal:terminated",
];

/// Signal 7, most often because `/dev/shm` is full.
const BUS_CODES: [&str; 11] = [
    "exitcode135",
    "exitcode:135",
    "exitcode:-7",
    "exitcode-7",
    "exitcode=-7",
    "returncode-7",
    "returncode=-7",
    "signal7",
    "signal:7",
    "sigbus",
    "buserror(coredumped)",
];

/// Words that count only as a whole line or as a separate word.
pub(super) fn of_line(line: &str, at: Offset) -> Option<Message> {
    let lower = line.to_ascii_lowercase();
    if SIGNS.iter().all(|sign| !lower.contains(sign)) {
        return None;
    }
    // Strip Markdown.
    let lower = lower.trim_matches(['*', '`', '_', '~']);
    let words: Vec<&str> = lower.split_whitespace().take(64).collect();
    let squeezed: String = words.concat();
    let has_code = |codes: &[&str]| {
        codes.iter().any(|code| {
            squeezed
                .split_once(code)
                .is_some_and(|(_, rest)| !rest.starts_with(|c: char| c.is_ascii_digit()))
        })
    };
    let of = |wording, memory| Some(Message::new(at, wording, memory));
    if shell_killed(lower, &words) || has_code(&KILL_CODES) {
        return of(Wording::Killed, Host);
    }
    if has_code(&BUS_CODES) {
        return of(Wording::BusError, Host);
    }
    if blames_paging_file(lower) {
        return of(Wording::PagingFile, Host);
    }
    if is_memory_error(&words) {
        return of(Wording::HostOther, Host);
    }
    if prose::was_killed(&words) || is_said_in_another_script(lower) {
        return of(Wording::SaidKilled, Host);
    }
    if squeezed.contains("dataloaderworker") && squeezed.contains("exitedunexpectedly") {
        return of(Wording::WorkerDied, Host);
    }
    if exhausts_ram(lower) {
        return of(Wording::Word, Host);
    }
    of(Wording::Word, oom(lower)?)
}

/// A shell's `Killed`, with or without a process id.
fn shell_killed(lower: &str, words: &[&str]) -> bool {
    words.iter().enumerate().any(|(index, word)| {
        let before = index.checked_sub(1).map(|i| words[i]);
        let is_shells = |b: &str| b.bytes().all(|c| c.is_ascii_digit()) || b.ends_with("sh:");
        match before {
            None if words.len() == 1 && is_bar(word) => true,
            None => (*word == "killed" && words.len() == 1) || lower == "killed: 9",
            // The shell's word follows a progress bar on the same line.
            Some(_) if index + 1 == words.len() && is_bar(word) => true,
            Some(before) => *word == "killed" && is_shells(before),
        }
    })
}

/// `77%|█████▌   killed`, squeezed or not: a bar that the shell's word ends.
fn is_bar(word: &str) -> bool {
    const BARS: [char; 12] = ['█', '▉', '▊', '▋', '▌', '▍', '▎', '▏', '|', ']', '#', '%'];
    word.strip_suffix("killed").is_some_and(|before| before.ends_with(BARS))
}

/// `出现 Killed 输出`, `被killed`: the shell's word in a sentence of another script.
fn is_said_in_another_script(lower: &str) -> bool {
    let is_wide = |c: char| !c.is_ascii() && c.is_alphabetic();
    lower.chars().any(is_wide)
        && lower.match_indices("killed").any(|(at, word)| {
            let latin = |c: char| c.is_ascii_alphanumeric() || "_.:".contains(c);
            let (before, after) = (lower[..at].trim_end(), lower[at + word.len()..].trim_start());
            !lower[..at].ends_with(latin)
                && !after.starts_with(latin)
                && (before.is_empty() || before.ends_with(is_wide))
        })
}

/// Python's `MemoryError`, alone or with a message.
fn is_memory_error(words: &[&str]) -> bool {
    let Some(first) = words.first() else { return false };
    let error = first.trim_end_matches(':');
    let is_pythons = error == "memoryerror" || error.ends_with(".memoryerror");
    is_pythons && (words.len() == 1 || first.ends_with(':'))
}

/// The memory of a line with the word `OOM`.
fn oom(lower: &str) -> Option<MemoryKind> {
    // Chinese and Japanese are written without spaces, so `OOM` may be part of a longer word.
    let mut latin = lower
        .split(|c: char| !c.is_ascii_alphanumeric() && c != '_' && c != '-')
        .filter(|word| !word.is_empty());
    let mut before = "";
    let is_oom = latin.by_ref().any(|word| {
        ["oom", "ooms", "oomed", "ooming", "oom-error"].contains(&word) || {
            before = word;
            false
        }
    });
    // `rather than a CUDA OOM`
    let denied = ["rather than", " not a ", " no ", "不是"];
    if is_oom && lower.split("oom").next().is_some_and(|b| denied.iter().any(|d| b.contains(d))) {
        return None;
    }
    let is_gpu = ["cuda", "gpu", "vram", "hip", "rocm"].contains(&before)
        || ["backward", "vllm", "sglang", "fsdp", "cuda", "vram"]
            .iter()
            .any(|word| lower.split(|c: char| !c.is_ascii_alphanumeric()).any(|w| w == *word))
        || lower.contains("显存");
    let is_host = ["cpu", "ram", "host"].contains(&before)
        || [
            "oom on ram",
            "oom in ram",
            "oom on cpu",
            "oom on the host",
            "cpu 内存",
            "cpu内存",
            "系统内存",
            "主机内存",
            "システムメモリ",
            "メインメモリ",
            "arbeitsspeicher",
        ]
        .iter()
        .any(|w| lower.contains(w));
    is_oom.then_some(match () {
        () if is_host => Host,
        () if is_gpu => Gpu,
        () => Unknown,
    })
}

/// A user's description: Windows' paging file is too small.
fn blames_paging_file(lower: &str) -> bool {
    let is_named = ["pagefile", "page file", "paging file"].iter().any(|w| lower.contains(w));
    let troubles = ["too small", "issue", "error", "problem", "not enough", "full", "exhausted"];
    is_named && troubles.iter().any(|word| lower.contains(word))
}

/// A user's description: the machine's memory (`RAM`, never `VRAM`) is full or the session crashed.
fn exhausts_ram(lower: &str) -> bool {
    let phrases = [
        "out of ram",
        "ram crash",
        "crashed my ram",
        "all the ram",
        "all my ram",
        "not enough ram",
        "ram is full",
        "insufficient ram",
        "ram usage keeps",
        "runs out of system memory",
        "ran out of system memory",
        "out of cpu memory",
    ];
    // `the RAM usage is maxed and the notebook crashes`
    let words = || lower.split(|c: char| !c.is_ascii_alphanumeric());
    let is_ram = words().any(|word| word == "ram") && !lower.contains("vram");
    let is_trouble =
        ["crash", "maxed", "run out", "runs out", "ran out", "exhaust", "used up", "100%"];
    if is_ram && is_trouble.iter().any(|word| lower.contains(word)) {
        return true;
    }
    phrases.iter().any(|phrase| {
        lower
            .match_indices(phrase)
            .any(|(at, _)| !lower[..at].ends_with(|c: char| c.is_ascii_alphanumeric()))
    })
}
