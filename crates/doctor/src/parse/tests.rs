//! Every form of message of every version, also wrapped, quoted and cut off.

use proptest::prelude::*;

use super::*;

const GIB: f64 = (1_u64 << 30) as f64;
const MIB: f64 = (1_u64 << 20) as f64;

fn message(log: &str) -> Message {
    Log::read(log.as_bytes()).message.unwrap_or_else(|| panic!("no message in {log}"))
}

/// The size as two decimals of a unit.
fn shown(size: Option<PrintedSize>, unit: f64) -> Option<String> {
    size.map(|size| format!("{:.2}", size.bytes as f64 / unit))
}

fn gib(size: Option<PrintedSize>) -> Option<String> {
    shown(size, GIB)
}

const TORCH_1_2: &str = "RuntimeError: CUDA out of memory. Tried to allocate 48.00 MiB (GPU 0; \
    5.94 GiB total capacity; 4.71 GiB already allocated; 48.62 MiB free; 201.33 MiB cached; 0 bytes inactive)";
const TORCH_1_13: &str = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 786.00 MiB \
    (GPU 1; 15.77 GiB total capacity; 14.31 GiB already allocated; 588.12 MiB free; 14.36 GiB reserved in \
    total by PyTorch) If reserved memory is >> allocated memory try setting max_split_size_mb to avoid \
    fragmentation.  See documentation for Memory Management and PYTORCH_CUDA_ALLOC_CONF";
const TORCH_2_1: &str = "torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 174.00 MiB. \
    GPU 0 has a total capacty of 39.39 GiB of which 61.81 MiB is free. Process 41873 has 39.32 GiB memory \
    in use. Of the allocated memory 37.66 GiB is allocated by PyTorch, and 318.74 MiB is reserved by PyTorch \
    but unallocated. If reserved but unallocated memory is large try setting max_split_size_mb to avoid fragmentation.";
const TORCH_2_6: &str = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 6.14 GiB. GPU  has a \
    total capacity of 11.69 GiB of which 2.68 GiB is free. Process 2208 has 224.90 MiB memory in use. Including \
    non-PyTorch memory, this process has 7.04 GiB memory in use. 10.00 GiB allowed; Of the allocated memory 6.78 \
    GiB is allocated by PyTorch, with 12.00 MiB allocated in private pools (e.g., CUDA Graphs), and 61.24 MiB is \
    reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting \
    PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True to avoid fragmentation.";
const TORCH_2_9: &str = "[W] memory allocation failed with OOM on device 0 while trying to allocate 6593445888 \
    bytes (free: 2877816832, total: 12552339456)\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate \
    6.14 GiB. GPU 0 has a total capacity of 11.69 GiB of which19.38 MiB is free. Of the allocated memory 6.78 GiB \
    is allocated by PyTorch, and 61.24 MiB is reserved by PyTorch but unallocated.";
const ROCM: &str = "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 394.00 MiB. GPU 0 has a total \
    capacity of 23.98 GiB of which 210.00 MiB is free. Of the allocated memory 22.90 GiB is allocated by PyTorch, and \
    401.22 MiB is reserved by PyTorch but unallocated. If reserved but unallocated memory is large try setting \
    PYTORCH_HIP_ALLOC_CONF=expandable_segments:True to avoid fragmentation.";

#[test]
fn messages_of_all_pytorch_versions_are_read() {
    let early = message(TORCH_1_2);
    assert_eq!(early.wording, Wording::Torch1);
    assert_eq!(gib(early.total).unwrap(), "5.94");
    assert_eq!(shown(early.free, MIB).unwrap(), "48.62");
    assert_eq!(gib(early.reserved).unwrap(), "4.91"); // allocated and cached

    let reserved = message(TORCH_1_13);
    assert_eq!(shown(reserved.requested, MIB).unwrap(), "786.00");
    assert_eq!(gib(reserved.reserved).unwrap(), "14.36");
    assert_eq!(gib(reserved.allocated).unwrap(), "14.31");

    let typo = message(TORCH_2_1);
    assert_eq!(typo.wording, Wording::Torch2);
    assert_eq!(gib(typo.total).unwrap(), "39.39");
    assert_eq!(typo.process, None);
    assert_eq!(typo.processes.len(), 1);
    assert_eq!(shown(typo.unallocated, MIB).unwrap(), "318.74");

    let late = message(TORCH_2_6);
    assert_eq!(gib(late.process).unwrap(), "7.04");
    assert_eq!(gib(late.allowed).unwrap(), "10.00");
    assert_eq!(gib(late.allocated).unwrap(), "6.78");
    assert_eq!(shown(late.pools, MIB).unwrap(), "12.00");
    assert_eq!(shown(late.processes.first().map(|(_, size)| *size), MIB).unwrap(), "224.90");

    let exact = message(TORCH_2_9);
    assert_eq!(exact.wording, Wording::Torch2);
    assert_eq!(exact.requested, Some(PrintedSize::exact(6_593_445_888)));
    assert_eq!(exact.free, Some(PrintedSize::exact(2_877_816_832)));
    assert_eq!(gib(exact.allocated).unwrap(), "6.78");

    let rocm = message(ROCM);
    assert_eq!(rocm.memory, MemoryKind::GpuMemory);
    assert_eq!(shown(rocm.free, MIB).unwrap(), "210.00");
}

#[test]
fn a_message_without_a_space_is_read() {
    let own = "Tried to allocate 2.00 MiB. GPU 0 has a total capacity of 1.00 GiB of which19.38 MiB is free.";
    assert_eq!(shown(message(own).free, MIB).unwrap(), "19.38");
}

#[test]
fn the_mps_message_gives_the_free_memory() {
    let message = message(
        "RuntimeError: MPS backend out of memory (MPS allocated: 17.50 GB, other allocations: 400.00 MB, \
         max allowed: 18.13 GB). Tried to allocate 392.98 MB on private pool. Use \
         PYTORCH_MPS_HIGH_WATERMARK_RATIO=0.0 to disable upper limit for memory allocations",
    );
    assert_eq!(message.wording, Wording::Mps);
    assert_eq!(gib(message.total).unwrap(), "18.13");
    assert_eq!(gib(message.free).unwrap(), "0.24");
    assert_eq!(shown(message.requested, MIB).unwrap(), "392.98");
    assert!(!message.is_rounded());
}

#[test]
fn impossible_numbers_are_ignored() {
    let odd = "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 7.75 GiB of which \
        0 bytes is free. Including non-PyTorch memory, this process has 17179869184.00 GiB memory in use. Of the \
        allocated memory 6.90 GiB is allocated by PyTorch, and 512.00 KiB is reserved by PyTorch but unallocated.";
    let odd = message(odd);
    assert_eq!(odd.process, None);
    assert_eq!(odd.free, Some(PrintedSize::exact(0)));
    assert_eq!(odd.unallocated.unwrap().bytes, 512 << 10);
    let contained = "Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 7.75 GiB of which 1.00 MiB is free. \
        Including non-PyTorch memory, this process has 0 bytes memory in use.";
    assert_eq!(message(contained).process, None);
}

#[test]
#[expect(clippy::too_many_lines, reason = "a table: a log for every wording")]
fn other_messages_have_the_right_memory_kind() {
    let table = [
        (
            "RuntimeError: cuda runtime error (2) : out of memory at /b/aten/src/THC/generic/THCStorage.cu:66",
            Wording::NoNumbers,
            MemoryKind::GpuMemory,
        ),
        (
            "RuntimeError: CUDA error: out of memory\nCUDA kernel errors might be asynchronously reported",
            Wording::NoNumbers,
            MemoryKind::GpuMemory,
        ),
        ("RuntimeError: HIP error: out of memory", Wording::NoNumbers, MemoryKind::GpuMemory),
        (
            "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
            Wording::Cublas,
            MemoryKind::GpuMemory,
        ),
        (
            "[CUDA ERROR] at file train_gpt2.cu:1072:\nout of memory",
            Wording::NoNumbers,
            MemoryKind::GpuMemory,
        ),
        (
            "Error: DriverError(CUDA_ERROR_OUT_OF_MEMORY, \"out of memory\")",
            Wording::NoNumbers,
            MemoryKind::GpuMemory,
        ),
        ("torch.OutOfMemoryError: CUDA out of memory.", Wording::NoNumbers, MemoryKind::GpuMemory),
        (
            "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 6593445888 bytes.",
            Wording::Jax,
            MemoryKind::GpuMemory,
        ),
        ("Allocation failed for size::6593445888 (6288)MB", Wording::Habana, MemoryKind::GpuMemory),
        (
            "ResourceExhaustedError: OOM when allocating tensor with shape[3,16,1024,1024] and type float on /device:GPU:0 by allocator GPU_0_bfc",
            Wording::TensorFlow,
            MemoryKind::GpuMemory,
        ),
        (
            "RuntimeError: [enforce fail at alloc_cpu.cpp:75] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate 19327352832 bytes. Error code 12 (Cannot allocate memory)",
            Wording::CpuAllocator,
            MemoryKind::HostMemory,
        ),
        ("iter 3: loss 2.0, time 9ms\nKilled", Wording::Killed, MemoryKind::HostMemory),
        (
            "./run.sh: line 4: 31337 Killed                  python train.py",
            Wording::Killed,
            MemoryKind::HostMemory,
        ),
        ("[1]    4711 killed     python train.py", Wording::Killed, MemoryKind::HostMemory),
        (
            "Process finished with exit code 137 (interrupted by signal 9: SIGKILL)",
            Wording::Killed,
            MemoryKind::HostMemory,
        ),
        ("  exitcode  : -9 (pid: 4711)", Wording::Killed, MemoryKind::HostMemory),
        (
            "torch.multiprocessing.spawn.ProcessExitedException: process 0 terminated with signal SIGKILL",
            Wording::Killed,
            MemoryKind::HostMemory,
        ),
        (
            "[8123.4] Out of memory: Killed process 4711 (python) total-vm:9kB",
            Wording::HostOther,
            MemoryKind::HostMemory,
        ),
        (
            "slurmstepd: error: Detected 1 oom-kill event(s) in StepId=1.batch",
            Wording::HostOther,
            MemoryKind::HostMemory,
        ),
        ("MemoryError", Wording::HostOther, MemoryKind::HostMemory),
        (
            "numpy.core._exceptions._ArrayMemoryError: Unable to allocate 17.6 GiB for an array",
            Wording::HostOther,
            MemoryKind::HostMemory,
        ),
        (
            "triton.runtime.errors.OutOfResources: out of resource: shared memory, Required: 131072, Hardware limit: 101376. Reducing block sizes or `num_stages` may help.",
            Wording::Triton,
            MemoryKind::SharedMemory,
        ),
        (
            "OutOfMemoryError: out of resource: triton_mm Required: 131072 Hardware limit: 101376",
            Wording::Triton,
            MemoryKind::SharedMemory,
        ),
        ("it says OOM", Wording::Word, MemoryKind::Unknown),
        ("a CUDA OOM again", Wording::Word, MemoryKind::GpuMemory),
        ("some runs OOM in the backward pass of the critic", Wording::Word, MemoryKind::GpuMemory),
        ("we see an OOM as soon as vllm wakes up", Wording::Word, MemoryKind::GpuMemory),
        ("stage 4 ended because of out of CUDA memory", Wording::Word, MemoryKind::GpuMemory),
        ("推理时显存很快上升到OOM", Wording::Word, MemoryKind::GpuMemory),
        ("the training task exits with status code 137", Wording::Killed, MemoryKind::HostMemory),
        (
            "ResourceExhaustedError:\n\nOut of memory error on GPU 2. Cannot allocate 512.500000MB memory on GPU 2, \
             9.250000GB memory has been allocated and available memory is only 0.000000B.",
            Wording::Paddle,
            MemoryKind::GpuMemory,
        ),
        (
            "EnforceNotMet: enforce allocating <= available failed, 9663676416 > 2147483648",
            Wording::Paddle,
            MemoryKind::GpuMemory,
        ),
        (
            "Non-zero status code returned while running Conv node. Name:'/head/Conv' Status Message: bfc_arena.cc:376 \
             AllocateRawInternal Failed to allocate memory for requested buffer of size 123456789",
            Wording::OnnxRuntime,
            MemoryKind::GpuMemory,
        ),
        (
            "Non-zero status code returned while running Conv node. Name:'12_nchwc' Status Message: bfc_arena.cc:330 \
             AllocateRawInternal Failed to allocate memory for requested buffer of size 123456789",
            Wording::OnnxRuntime,
            MemoryKind::HostMemory,
        ),
        (
            "rocm_driver.cc:600] failed to allocate 512.00M (536870912 bytes) from device: HIP_ERROR_OutOfMemory",
            Wording::NoNumbers,
            MemoryKind::GpuMemory,
        ),
        (
            "[E] [TRT] runtime.cpp (25) - Cuda Error in nvinfer1::internal::DefaultAllocator::allocate: 2 (out of memory)",
            Wording::NoNumbers,
            MemoryKind::GpuMemory,
        ),
        (
            "(raylet) node_manager.cc:3000: 3 Workers (tasks / actors) killed due to memory pressure (OOM), 0 Workers \
             crashed due to other reasons at node (ID: abc)",
            Wording::HostOther,
            MemoryKind::HostMemory,
        ),
        (
            "ray.exceptions.OutOfMemoryError: Task was killed due to the node running low on memory.",
            Wording::HostOther,
            MemoryKind::HostMemory,
        ),
        (
            "Error: model requires more system memory (9.1 GiB) than is available (5.0 GiB)",
            Wording::HostOther,
            MemoryKind::HostMemory,
        ),
        (
            "Error: llama runner exited, you may not have enough available memory to run this model",
            Wording::NoNumbers,
            MemoryKind::Unknown,
        ),
        (
            "E client.cc:1981] Execution failed: Resource exhausted: Failed to allocate request for 48.00MiB (50331648B) on device ordinal 0",
            Wording::Jax,
            MemoryKind::GpuMemory,
        ),
        (
            "ResourceExhaustedError: failed to allocate memory\n\t [[{{node model/h3/add}}]]",
            Wording::Jax,
            MemoryKind::GpuMemory,
        ),
        (
            "Executor failed. Resource exhausted: OOM when allocating tensor of shape [] and type float",
            Wording::TensorFlow,
            MemoryKind::GpuMemory,
        ),
        (
            "W bfc_allocator.cc:501] Allocator (GPU_0_bfc) ran out of memory trying to allocate 510.50MiB",
            Wording::NoNumbers,
            MemoryKind::GpuMemory,
        ),
        (
            "RuntimeError: $ Torch: not enough memory: you tried to allocate 3GB. Buy new RAM!",
            Wording::CpuAllocator,
            MemoryKind::HostMemory,
        ),
        (
            "node7:12:34 [0] alloc.h:9 NCCL WARN Cuda failure 'out of memory'",
            Wording::NoNumbers,
            MemoryKind::GpuMemory,
        ),
        (
            "ggml: allocating 900.00 MiB on device 0: cudaMalloc failed: out of memory",
            Wording::Ggml,
            MemoryKind::GpuMemory,
        ),
        (
            "pycuda._driver.MemoryError: cuMemAlloc failed: out of memory",
            Wording::NoNumbers,
            MemoryKind::GpuMemory,
        ),
        (
            "ResourceExhaustedError           Traceback (most recent call last)",
            Wording::NoNumbers,
            MemoryKind::GpuMemory,
        ),
        (
            "OutOfMemoryError                 Traceback (most recent call last)",
            Wording::NoNumbers,
            MemoryKind::GpuMemory,
        ),
        (
            "Out of memory error on GPU 0. Cannot allocate 1.1GB memory",
            Wording::Paddle,
            MemoryKind::GpuMemory,
        ),
        ("CUDA out of memory. Tried to allocate", Wording::NoNumbers, MemoryKind::GpuMemory),
        ("训练时报错：显存不足", Wording::Word, MemoryKind::GpuMemory),
        ("java.lang.OutOfMemoryError: Java heap space", Wording::HostOther, MemoryKind::HostMemory),
        (
            "numpy.core._exceptions.MemoryError: Unable to allocate 3.1 GiB",
            Wording::HostOther,
            MemoryKind::HostMemory,
        ),
        (
            "slurmstepd: error: Detected 1 oom_kill event in StepId=3.0",
            Wording::HostOther,
            MemoryKind::HostMemory,
        ),
        (
            "OSError: [WinError 1455] The paging file is too small for this operation",
            Wording::PagingFile,
            MemoryKind::HostMemory,
        ),
        (
            "It is possible that dataloader's workers are out of shared memory. Please try to raise your limit",
            Wording::DevShm,
            MemoryKind::HostMemory,
        ),
        (
            "Your session crashed after using all available RAM.",
            Wording::HostOther,
            MemoryKind::HostMemory,
        ),
        ("exits with return code = -7", Wording::BusError, MemoryKind::HostMemory),
        ("Allocation on device", Wording::NoNumbers, MemoryKind::GpuMemory),
        (
            "vk::Device::allocateMemory: ErrorOutOfDeviceMemory",
            Wording::NoNumbers,
            MemoryKind::GpuMemory,
        ),
        ("(UR_RESULT_ERROR_OUT_OF_HOST_MEMORY)", Wording::HostOther, MemoryKind::HostMemory),
        ("OSError: [Errno 12] can't allocate memory", Wording::HostOther, MemoryKind::HostMemory),
        (
            "[malloc_or_wait] Unable to allocate 134217728 bytes.",
            Wording::Metal,
            MemoryKind::GpuMemory,
        ),
        ("ページング ファイルが小さすぎるため", Wording::PagingFile, MemoryKind::HostMemory),
        ("my pagefile seems to be full", Wording::PagingFile, MemoryKind::HostMemory),
        ("there is not enough GPU memory", Wording::Word, MemoryKind::GpuMemory),
        ("the card is running of memory", Wording::Word, MemoryKind::Unknown),
        ("we ran out of host memory", Wording::Word, MemoryKind::HostMemory),
        ("out of memory (system RAM, not GPU RAM)", Wording::Word, MemoryKind::HostMemory),
        ("der Grafikspeicher reicht nicht aus", Wording::Word, MemoryKind::GpuMemory),
        ("der Arbeitsspeicher reicht nicht aus", Wording::Word, MemoryKind::HostMemory),
        ("GPUメモリ不足です", Wording::Word, MemoryKind::GpuMemory),
        ("训练时内存溢出", Wording::Word, MemoryKind::Unknown),
        (
            "Your notebook tried to allocate more memory than is available. It has restarted.",
            Wording::HostOther,
            MemoryKind::HostMemory,
        ),
    ];
    for (log, wording, memory) in table {
        let message = message(log);
        assert_eq!((message.wording, message.memory), (wording, memory), "{log}");
    }
}

#[test]
fn numbers_of_other_frameworks_are_exact() {
    let jax =
        message("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 6593445888 bytes.");
    assert_eq!(jax.requested, Some(PrintedSize::exact(6_593_445_888)));
    let words = "ResourceExhaustedError: Ran out of GPU memory when allocating 1294336000 bytes";
    assert_eq!(message(words).requested, Some(PrintedSize::exact(1_294_336_000)));
    let shaped =
        Log::read(b"OOM when allocating tensor with shape[3,16,1024,1024] and type float on");
    assert_eq!(shaped.shape.unwrap().axes, [3, 16, 1024, 1024]);
    let triton =
        message("out of resource: shared memory, Required: 131072, Hardware limit: 101376.");
    assert_eq!(triton.shared, Some([131_072, 101_376]));
}

#[test]
fn logs_without_a_failure_have_no_message() {
    let logs = [
        "",
        "step 0: train loss 10.9886, val loss 10.9898\niter 0: loss 10.9, time 100.00ms, mfu -100.00%",
        "exitcode : 1 (pid: 4711)\nexit code 1370",
        "I killed the process myself, room for improvement",
        "UserWarning: `torch.cuda.amp.GradScaler(args...)` is deprecated.",
        "[CUDA ERROR] at file train.cu:7:\nan illegal memory access was encountered",
        "google.api_core: 429 RESOURCE_EXHAUSTED: Quota exceeded for requests per minute",
        "RuntimeError: DataLoader worker (pid 7) is killed by signal: Segmentation fault.",
        "Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.00GiB with freed_by_count=0. The caller \
         indicates that this is not a failure, but may mean that there could be performance gains",
    ];
    for log in logs {
        assert_eq!(Log::read(log.as_bytes()).message, None, "{log}");
    }
}

#[test]
fn a_failed_allocation_outweighs_autotuning_and_killed_ranks() {
    let tuner = "out of resource: shared memory, Required: 131072, Hardware limit: 101376.";
    let log = format!("{tuner}\n{TORCH_2_6}\nexitcode : -9 (pid: 3)\nKilled\nOOM");
    let log = Log::read(log.as_bytes());
    assert_eq!(log.message.unwrap().wording, Wording::Torch2);
    assert!(log.has_harmless_triton_error);
}

#[test]
fn a_shape_in_generated_code_counts_only_if_its_size_agrees() {
    let line = "buf706 = empty_strided_cuda((65536, 50304), (50304, 1), torch.bfloat16)";
    let log = Log::read(format!("{line}\n{TORCH_2_6}").as_bytes());
    assert_eq!(
        log.shape,
        Some(PrintedShape {
            axes: vec![65536, 50304],
            dtype: DType::Bf16.into(),
            op: String::new(),
            is_part: false
        })
    );
    let other = "buf7 = empty_strided_cuda((64, 64), (64, 1), torch.float32)";
    assert_eq!(Log::read(format!("{other}\n{TORCH_2_6}").as_bytes()).shape, None);
    let old =
        "buf3 = empty_strided((65536, 50304), (50304, 1), device='cuda', dtype=torch.float16)";
    assert!(Log::read(format!("{old}\n{TORCH_2_6}").as_bytes()).shape.is_some());
}

#[test]
fn a_message_repeated_in_short_form_keeps_its_numbers() {
    let log = format!("{TORCH_2_6}\nStack:\nCUDA out of memory. Tried to allocate 6.14 GiB.\n");
    let read = message(&log);
    assert_eq!(gib(read.total).unwrap(), "11.69");
    assert!(read.at > message(TORCH_2_6).at);
}

#[test]
fn the_model_is_recognized_by_keywords_only() {
    let of = |log: &str| Log::read(log.as_bytes()).clues;
    assert!(of("fine-tuning GPT-2 small").has(Clue::Gpt2));
    assert!(of("Stable Diffusion, 768 x 768").has(Clue::Diffusion));
    assert_eq!(of("Killed"), Clues::default());
    assert!(!of("CUDA out of memory.").any(&[Clue::Gpt2, Clue::Diffusion, Clue::Decoder]));
}

#[test]
fn harmless_lines_are_notes() {
    let log = "W0101 torch/_inductor/utils.py:1250] [0/0] Not enough SMs to use max_autotune_gemm mode\n\
        FutureWarning: `torch.cuda.amp.GradScaler(args...)` is deprecated. Please use\n\
        FutureWarning: You are using `torch.load` with `weights_only=False` (the current default\n";
    let names: Vec<_> = Log::read(log.as_bytes()).notes.iter().map(|line| line.id()).collect();
    assert_eq!(names, ["few-multiprocessors", "grad-scaler-deprecated", "load-weights-only"]);
}

#[test]
fn ranks_are_counted_and_their_frames_kept_apart() {
    let log = format!(
        "[rank0]: Traceback (most recent call last):\n[rank1]: Traceback (most recent call last):\n\
         [rank0]:   File \"train.py\", line 264, in <module>\n[rank1]:   File \"train.py\", line 305, in <module>\n\
         [rank0]:     losses = estimate_loss()\n[rank1]: {TORCH_2_6}\n"
    );
    let log = Log::read(log.as_bytes());
    assert_eq!(log.workers, 2);
    assert_eq!(log.frames.iter().map(|f| f.line).collect::<Vec<_>>(), [305]);
}

use fitgpt_program::units::DType;

/// A log as pasted into a forum: wrapped at a column, with a prefix before each line.
fn dressed(log: &str, columns: usize, before: &str, after: &str, end: &str) -> String {
    let mut text = String::new();
    for line in log.lines() {
        let chars: Vec<char> = line.chars().collect();
        for piece in chars.chunks(columns) {
            text.extend([before, &piece.iter().collect::<String>(), after, end]);
        }
    }
    text
}

fn any_message() -> impl Strategy<Value = &'static str> {
    proptest::sample::select(vec![TORCH_1_2, TORCH_1_13, TORCH_2_1, TORCH_2_6, TORCH_2_9, ROCM])
}

proptest! {
    #[test]
    fn any_bytes_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..4000)) {
        Log::read(&bytes);
    }

    #[test]
    fn a_wrapped_and_quoted_message_reads_the_same(
        log in any_message(),
        columns in 40_usize..160,
        before in proptest::sample::select(vec!["", "> ", "> > ", "│ ", "[rank0]: ", "┃  ", "\u{1b}[31m"]),
        after in proptest::sample::select(vec!["", "  │", " ┃", "\u{1b}[0m"]),
        end in proptest::sample::select(vec!["\n", "\r\n"]),
    ) {
        let mut found = message(&dressed(log, columns, before, after, end));
        let mut whole = message(log);
        (found.at, whole.at) = (0, 0);
        prop_assert_eq!(found, whole);
    }

    #[test]
    fn a_message_cut_anywhere_never_gains_a_wrong_number(log in any_message(), from in 0_usize..700, to in 0_usize..700) {
        let text: String = log.chars().skip(from.min(to)).take(from.abs_diff(to)).collect();
        let cut = Log::read(text.as_bytes()).message;
        let (Some(cut), whole) = (cut, message(log)) else { return Ok(()) };
        // A number that is cut at its front reads differently; later numbers do not.
        let same = |a: Option<PrintedSize>, b: Option<PrintedSize>| a.is_none() || a == b;
        let is_front_whole = text.contains("Tried to allocate ") && !text.contains("failed with OOM");
        if is_front_whole && whole.wording == cut.wording && log != TORCH_2_9 {
            prop_assert!(same(cut.total, whole.total));
            prop_assert!(same(cut.free, whole.free));
            prop_assert!(same(cut.allocated, whole.allocated));
        }
    }

    #[test]
    fn chunks_of_any_length_give_the_same_log(
        log in any_message(),
        noise in proptest::collection::vec(any::<u8>(), 0..300),
        piece in 1_usize..64,
    ) {
        let mut bytes = noise.clone();
        bytes.extend(b"\n");
        bytes.extend(log.as_bytes());
        let mut reader = Reader::default();
        for piece in bytes.chunks(piece) {
            reader.push(piece);
        }
        prop_assert_eq!(reader.finish(), Log::read(&bytes));
    }
}

#[test]
fn a_long_log_is_read_in_constant_memory() {
    let mut reader = Reader::default();
    let line = "iter 7: loss 3.2, time 100.00ms, mfu 20.00%\n".repeat(1000);
    for _ in 0..50 {
        reader.push(line.as_bytes());
        reader.push(TORCH_2_6.as_bytes());
        reader.push(b"\n");
    }
    assert!(reader.body.found.messages.len() <= MOST);
    assert_eq!(reader.finish().message.unwrap().wording, Wording::Torch2);
}
