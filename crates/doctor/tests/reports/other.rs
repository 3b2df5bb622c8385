//! Reports of inference and servers, and those that do not say what ran.

use fitgpt_doctor::{
    Domain::{self, Inference, Serving, Unknown},
    PhaseName as P, Remedy as R,
};

use crate::ReportCase;

pub(crate) const ROWS: &[ReportCase] = &[
    (
        "memory that Windows moved to the host",
        "Error completing request\nTraceback (most recent call last):\n  File \"C:\\\\webui\\\\modules\\\\txt2img.py\", line 55, in txt2img\n    \
         processed = processing.process_images(p)\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 900.00 MiB (GPU 0; 4.00 GiB \
         total capacity; 6.70 GiB already allocated; 0 bytes free; 6.90 GiB reserved in total by PyTorch)",
        Serving,
        "spilled-to-host",
        P::Sample,
        R::TiledVae,
    ),
    (
        "an image decoded in ComfyUI",
        "Error occurred when executing VAEDecode:\nAllocation on device 0 would exceed allowed memory. (out of memory)\n\
         Currently allocated : 4.58 GiB\nRequested : 256.00 MiB\nDevice limit : 6.00 GiB\nFree (according to CUDA): 0 bytes\n\
         File \"D:\\\\ComfyUI\\\\execution.py\", line 152, in recursive_execute",
        Serving,
        "batch-too-large",
        P::Serve,
        R::TiledVae,
    ),
    (
        "vLLM next to other processes",
        "vllm serve some/model\nValueError: Free memory on device (31.20/79.25 GiB) on startup is less than desired GPU memory utilization \
         (0.9, 71.33 GiB). Decrease GPU memory utilization or reduce GPU memory used by other processes.",
        Serving,
        "server-reservation",
        P::Start,
        R::GpuMemoryUtilization,
    ),
    (
        "vLLM with a long context",
        "ValueError: To serve at least one request with the models's max seq len (131072), (16.00 GiB KV cache is needed, which is larger \
         than the available KV cache memory (5.03 GiB). vllm",
        Serving,
        "kv-cache",
        P::Start,
        R::MaxModelLen,
    ),
    (
        "weights that vLLM cannot load",
        "vllm serve mistralai/Mistral-7B-v0.1 --dtype half\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 224.00 MiB (GPU 0; \
         10.73 GiB total capacity; 9.85 GiB already allocated; 46.44 MiB free; 9.86 GiB reserved in total by PyTorch)",
        Serving,
        "weights-too-large",
        P::Unknown,
        R::QuantizeWeights,
    ),
    (
        "llama.cpp's weights",
        "load_tensors: loading model tensors\nggml_backend_cuda_buffer_type_alloc_buffer: allocating 24817.04 MiB on device 0: cudaMalloc failed: \
         out of memory\nllama_model_load: error loading model: unable to allocate CUDA0 buffer",
        Serving,
        "weights-too-large",
        P::Load,
        R::FewerGpuLayers,
    ),
    (
        "unfused attention while generating",
        "Traceback (most recent call last):\n  File \"chat.py\", line 20, in <module>\n    out = model.generate(ids)\n  \
         File \"/lib/transformers/models/llama/modeling_llama.py\", line 370, in forward\n    attn_weights = torch.matmul(query, key)\n\
         torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.02 GiB. GPU 0 has a total capacity of 23.64 GiB of which \
         820.00 MiB is free. Process 3121 has 22.82 GiB memory in use. Of the allocated memory 21.98 GiB is allocated by PyTorch, and \
         390.12 MiB is reserved by PyTorch but unallocated.",
        Inference,
        "attention-scores",
        P::Sample,
        R::FusedAttention,
    ),
    (
        "JAX next to another process",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 6291456 bytes.\n\
         BufferAssignment stats:\n   parameter allocation:    6.00MiB\n   total allocation:   12.00MiB",
        Unknown,
        "foreign-memory",
        P::Unknown,
        R::XlaPreallocate,
    ),
    (
        "a token out of range",
        "Indexing.cu:662: indexSelectLargeIndex: block: [3,0,0], thread: [4,0,0] Assertion `srcIndex < srcSelectDimSize` failed.\n\
         RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        Unknown,
        "device-side-error",
        P::Unknown,
        R::LaunchBlocking,
    ),
    (
        "workers without shared memory",
        "RuntimeError: DataLoader worker (pid 3855) is killed by signal: Bus error. It is possible that dataloader's workers are out of shared memory.",
        Unknown,
        "dev-shm",
        P::Unknown,
        R::ShmSize,
    ),
    (
        "a killed process in Markdown",
        "loading data\n\n**Killed**\n",
        Unknown,
        "host-memory",
        P::Unknown,
        R::MoreRam,
    ),
    (
        "a small paging file",
        "OSError: [WinError 1455] The paging file is too small for this operation to complete. Error loading \"C:\\\\torch\\\\lib\\\\cudnn.dll\"",
        Unknown,
        "paging-file",
        P::Unknown,
        R::PagingFile,
    ),
    (
        "CUDA graphs of a server",
        "(Worker rank=1 pid=77) ERROR 03-02 10:11:12 [executor.py:400]   File \"/lib/vllm/compilation/cuda_graph.py\", line 266, in __call__\n\
         (Worker rank=1 pid=77) ERROR 03-02 10:11:12 [executor.py:400]     with torch.cuda.graph(graph, pool=self.pool):\n\
         (Worker rank=1 pid=77) ERROR 03-02 10:11:12 [executor.py:400]   File \"/lib/torch/cuda/graphs.py\", line 180, in __exit__\n\
         (Worker rank=1 pid=77) ERROR 03-02 10:11:12 [executor.py:400]     self.cuda_graph.capture_end()\n\
         (Worker rank=1 pid=77) ERROR 03-02 10:11:12 [executor.py:400] RuntimeError: CUDA error: out of memory",
        Serving,
        "server-reservation",
        P::Start,
        R::GpuMemoryUtilization,
    ),
    (
        "page-locked memory of TensorFlow",
        "2021-01-02 10:00:00.1: E tensorflow/stream_executor/cuda/cuda_driver.cc:890] failed to alloc 374391296 bytes on host: \
         CUDA_ERROR_OUT_OF_MEMORY: out of memory\n2021-01-02 10:00:00.2: W ./tensorflow/core/common_runtime/gpu/gpu_host_allocator.h:44] \
         could not allocate pinned host memory of size: 374391296",
        Unknown,
        "host-memory",
        P::Unknown,
        R::MoreRam,
    ),
    (
        "weights of a workflow that are cast on the card",
        "  File \"C:\\ComfyUI\\comfy\\model_patcher.py\", line 390, in load\n    self.patch_weight_to_device(key, device_to=device)\n  \
         File \"C:\\ComfyUI\\comfy\\model_management.py\", line 850, in cast_to_device\n    return tensor.to(device, copy=copy)\n\
         torch.OutOfMemoryError: Allocation on device\nGot an OOM, unloading all loaded models.",
        Serving,
        "weights-too-large",
        P::Load,
        R::LowVram,
    ),
    (
        "a worker that ended without a reason",
        "Exception in thread Thread-2 (results_loop):\nTraceback (most recent call last):\n  File \"/lib/batchgenerators/augmenter.py\", \
         line 103, in results_loop\n    raise RuntimeError(\nRuntimeError: One or more background workers are no longer alive. Exiting.",
        Unknown,
        "host-memory",
        P::Unknown,
        R::FewerWorkers,
    ),
    (
        "a web interface that draws no images",
        "uv run webui.py --model_dir checkpoints\n\
         torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 714.00 MiB. GPU 0 has a total capacity of 11.60 GiB of which \
         605.75 MiB is free. Including non-PyTorch memory, this process has 10.98 GiB memory in use. Of the allocated memory 10.50 GiB is \
         allocated by PyTorch, and 264.44 MiB is reserved by PyTorch but unallocated. Speech inference with our tts model.",
        Inference,
        "batch-too-large",
        P::Unknown,
        R::SmallerInput,
    ),
    (
        "a vision encoder's profiling run inside a server",
        "(EngineCore_DP0 pid=15) ERROR 01-02 03:04:05 [core.py:779]   File \"/lib/vllm/v1/worker/gpu_worker.py\", line 284, in measure\n\
         (EngineCore_DP0 pid=15) ERROR 01-02 03:04:05 [core.py:779]     self.model_runner.profile_run()\n\
         (EngineCore_DP0 pid=15) ERROR 01-02 03:04:05 [core.py:779]   File \"/lib/vllm/v1/worker/gpu_model_runner.py\", line 3702, in profile_run\n\
         (EngineCore_DP0 pid=15) ERROR 01-02 03:04:05 [core.py:779]     self.model.get_multimodal_embeddings(\n\
         (EngineCore_DP0 pid=15) ERROR 01-02 03:04:05 [core.py:779] torch.OutOfMemoryError: HIP out of memory. Tried to allocate 17.00 GiB. GPU 0 \
         has a total capacity of 15.98 GiB of which 9.25 GiB is free.",
        Serving,
        "request-larger-than-card",
        P::Start,
        R::MaxModelLen,
    ),
    (
        "inference that somebody describes",
        "多图推理时报 OOM，单卡 32G 显存，模型 Qwen2-VL-7B-Instruct",
        Inference,
        "undecided",
        P::Sample,
        R::SmallerInput,
    ),
    (
        "ONNX Runtime behind a server",
        "[E:onnxruntime] Non-zero status code returned while running Mul node. Name:'Mul_7' Status Message: bfc_arena.cc:368 \
         void* onnxruntime::BFCArena::AllocateRawInternal Failed to allocate memory for requested buffer of size 2830172160\n\
         six other models share this card",
        Inference,
        "undecided",
        P::Unknown,
        R::OrtArena,
    ),
    (
        "a shape with wrong numbers in ONNX Runtime",
        "[ONNXRuntimeError] : 6 : RUNTIME_EXCEPTION : Non-zero status code returned while running Conv node. Status Message: \
         bfc_arena.cc:376 AllocateRawInternal Failed to allocate memory for requested buffer of size 4611686018427387904",
        Inference,
        "request-larger-than-card",
        P::Unknown,
        R::FindTheShape,
    ),
    (
        "TensorRT builds an engine",
        "$ trtexec --onnx=net.onnx\n[E] Error[1]: [defaultAllocator.cpp::allocate::31] Error Code 1: Cuda Runtime (out of memory)\n\
         [W] [TRT] Requested amount of GPU memory (9663676416 bytes) could not be allocated.\n\
         [E] Engine could not be created from network",
        Serving,
        "undecided",
        P::Compile,
        R::TrtWorkspace,
    ),
    (
        "Ray kills its workers",
        "(raylet) [2025-01-01 10:00:00,000 E 1 1] (raylet) node_manager.cc:3069: 2 Workers (tasks / actors) killed due to memory \
         pressure (OOM), 0 Workers crashed due to other reasons at node (ID: 0af3, IP: 10.0.0.2) over the last time period.\n\
         (raylet) Refer to the documentation on how to address the out of memory issue",
        Unknown,
        "host-memory",
        P::Unknown,
        R::MoreRam,
    ),
    (
        "another process has most of an accelerator that is served",
        "vllm serve model\nRuntimeError: NPU out of memory. Tried to allocate 24.00 MiB (NPU 0; 60.97 GiB total capacity; 9.10 GiB \
         already allocated; 9.10 GiB current active; 18.00 MiB free; 9.40 GiB reserved in total by PyTorch)",
        Serving,
        "foreign-memory",
        P::Unknown,
        R::FreeTheCard,
    ),
    (
        "a nearly full card with a few hundred MiB free",
        "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 130.00 MiB. GPU 0 has a total capacity of 19.94 GiB of which \
         560.00 MiB is free. Of the allocated memory 17.20 GiB is allocated by PyTorch, and 160.00 MiB is reserved by PyTorch but \
         unallocated.",
        Unknown,
        "undecided",
        P::Unknown,
        R::SmallerMicroBatch,
    ),
    (
        "a function that quantizes and then saves",
        "Traceback (most recent call last):\n  File \"q.py\", line 9, in quantize_and_save\n    model.quantize(tokenizer)\n  \
         File \"/lib/awq/quantize/quantizer.py\", line 135, in quantize\n    ].to(common_device)\n\
         torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 120.00 GiB. GPU 1 has a total capacity of 79.15 GiB of \
         which 70.56 GiB is free. Process 99 has 8.58 GiB memory in use. Of the allocated memory 8.11 GiB is allocated by PyTorch, \
         and 65.17 MiB is reserved by PyTorch but unallocated.",
        Unknown,
        "request-larger-than-card",
        P::Unknown,
        R::FindTheShape,
    ),
    (
        "Ollama without a word about which memory",
        "$ ollama run big\nError: llama runner exited, you may not have enough available memory to run this model",
        Serving,
        "weights-too-large",
        P::Unknown,
        R::FewerGpuLayers,
    ),
    (
        "an Intel card under a user interface",
        "File \"H:\\ComfyUI\\execution.py\", line 8, in execute\n    out = node.run()\n\
         RuntimeError: level_zero backend failed with error: 40 (UR_RESULT_ERROR_OUT_OF_RESOURCES)",
        Serving,
        "undecided",
        P::Serve,
        R::LowVram,
    ),
    (
        "a pool of keys and values that runs full while serving",
        "python -m sglang.launch_server --model-path /m --mem-fraction-static 0.8\nPrefill out of memory. Try to lower your batch size.",
        Serving,
        "kv-cache",
        P::Serve,
        R::MaxModelLen,
    ),
    (
        "a quantized 7B model on a card of 2 GB",
        "mlc_llm/runtime/cuda_device_api.cc:129: CUDA: out of memory\nmodels/chat-Llama-2-7b-q4f16_1\n\
         |   0  GeForce MX350           Off | 00:01:00.0 Off |\n| N/A   42C    P8    N/A |      9MiB /  2048MiB |      0%      Default |",
        Serving,
        "weights-too-large",
        P::Unknown,
        R::QuantizeWeights,
    ),
    (
        "a diffusion pipeline in a few lines of code",
        "pipe = DiffusionPipeline.from_pretrained(name).to('cuda')\nOutOfMemoryError: CUDA out of memory. Tried to allocate 1.02 GiB. \
         GPU 0 has a total capacity of 15.89 GiB of which 137.12 MiB is free.",
        Serving,
        "undecided",
        P::Unknown,
        R::CpuOffload,
    ),
    (
        "host memory that a user tells apart from the card's",
        "the notebook stops: out of memory (system RAM, not GPU RAM)",
        Unknown,
        "host-memory",
        P::Unknown,
        R::MoreRam,
    ),
    (
        "a server's own message without its name",
        "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
        Serving,
        "kv-cache",
        P::Start,
        R::GpuMemoryUtilization,
    ),
    (
        "llama.cpp cannot allocate host memory",
        "ggml_backend_cpu_buffer_type_alloc_buffer: failed to allocate buffer of size 612368384\nalloc_tensor_range: failed to allocate \
         CPU buffer of size 612368384\nllama_model_load: error loading model: unable to allocate CPU buffer",
        Serving,
        "host-memory",
        P::Load,
        R::MoreRam,
    ),
    (
        "Metal's code in a message of llama.cpp",
        "./llama-server -m model-Q4_K_M.gguf -c 65536 -ngl 99\nerror: Insufficient Memory \
         (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)\nggml_metal_synchronize: error: command buffer 1 failed with status 5",
        Serving,
        "unified-memory-limit",
        P::Unknown,
        R::SmallerContext,
    ),
    (
        "a data loader worker that the system killed, without a traceback",
        "step:200 loss:0.310\nRuntimeError: DataLoader worker (pid 5521) is killed by signal: Killed.",
        Unknown,
        "host-memory",
        P::Unknown,
        R::FewerWorkers,
    ),
    (
        "a shell's word at the end of a progress bar",
        "quantizing layers:  61%|██████    | 20/32\ncollecting samples in layers.20:  70%|███████Killed",
        Unknown,
        "host-memory",
        P::Unknown,
        R::MoreRam,
    ),
    (
        "a killed merge, whose user suspects the card",
        "合并权重的时候输出 Killed\n是显存不够吗？（3090）",
        Unknown,
        "host-memory",
        P::Unknown,
        R::MoreRam,
    ),
    (
        "weights that exceed a TPU by XLA's own numbers",
        "XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space hbm. \
         Used 28.10G of 15.48G hbm. Exceeded hbm capacity by 12.62G.\n\nTotal hbm usage >= 28.60G:\n    reserved   530.00M\n    \
         program    10.10G\n    arguments  17.90G\n\nProgram hbm requirement 10.10G:\n    HLO temp   10.10G",
        Unknown,
        "weights-too-large",
        P::Unknown,
        R::HalfPrecision,
    ),
    (
        "a checkpoint that Paddle loads",
        "Traceback (most recent call last):\n  File \"chat.py\", line 25, in <module>\n    state = paddle.load(path)\n\
         ResourceExhaustedError:\n\nOut of memory error on GPU 0. Cannot allocate 50.000000MB memory on GPU 0, 11.990000GB memory has \
         been allocated and available memory is only 0.000000B.",
        Unknown,
        "checkpoint-on-device",
        P::Resume,
        R::LoadToCpu,
    ),
    (
        "other processes in a user's table",
        "what the panel said when train_net.py died with CUDA out of memory:\n| what | value |\n|---|---|\n| total memory | 16 GB |\n\
         | allocated by torch | 5.1 GB |\n| free | 220 MiB |\n| other processes | 9.9 GB |\n| requested | 640 MiB |",
        Unknown,
        "foreign-memory",
        P::Unknown,
        R::FreeTheCard,
    ),
    (
        "a chip that is named like a model's size, and unfused attention",
        "在昇腾910B上推理时报错：\nhidden = F.scaled_dot_product_attention(\nRuntimeError: NPU out of memory. Tried to allocate 30.31 GiB \
         (NPU 0; 60.97 GiB total capacity; 31.13 GiB already allocated; 31.13 GiB current active; 28.81 GiB free; 31.61 GiB reserved in \
         total by PyTorch)",
        Inference,
        "attention-scores",
        P::Unknown,
        R::FusedAttention,
    ),
    (
        "NCCL's error without a word of memory",
        "terminate called after throwing an instance of 'std::runtime_error'\n  what():  NCCL Error 1: unhandled cuda error\nEvaluating:   0%",
        Domain::None,
        "not-memory",
        P::Unknown,
        R::NcclDebug,
    ),
    (
        "an assertion of the script",
        "Traceback (most recent call last):\n  File \"base_train.py\", line 160, in <module>\n    assert total % world == 0\nAssertionError",
        Domain::None,
        "not-memory",
        P::Unknown,
        R::FixTheError,
    ),
    (
        "a layer that is being made, above the message",
        "I run Llama3.1-8b-instruct\n    self.weight = Parameter(torch.empty(self.rows, self.columns))\n\
         torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has a total capacity of 7.69 GiB of which 9.94 MiB is \
         free. Including non-PyTorch memory, this process has 7.64 GiB memory in use. Of the allocated memory 7.34 GiB is allocated by \
         PyTorch, and 121.77 MiB is reserved by PyTorch but unallocated.",
        Unknown,
        "weights-too-large",
        P::Load,
        R::QuantizeWeights,
    ),
    (
        "memory that is said not to be released",
        "GPU memory usage gradually increases!\nAfter each call the GPU memory will increase and will not be released.",
        Unknown,
        "memory-grows",
        P::Unknown,
        R::KeepNumbers,
    ),
    (
        "two to the power of 64 bytes",
        ">>> y = net(x)\nRuntimeError: CUDA out of memory. Tried to allocate 17179869183.95 GiB (GPU 0; 23.65 GiB total capacity; 3.15 GiB \
         already allocated; 18.80 GiB free; 3.15 GiB reserved in total by PyTorch)",
        Unknown,
        "request-larger-than-card",
        P::Unknown,
        R::FindTheShape,
    ),
    (
        "a card that other processes fill, without the request",
        "(GPU 0; 15.75 GiB total capacity; 79.11 MiB already allocated; 3.62 MiB free; 86.00 MiB reserved in total by PyTorch) RuntimeError: \
         CUDA out of memory.",
        Unknown,
        "foreign-memory",
        P::Unknown,
        R::FreeTheCard,
    ),
    (
        "weights that two cards share",
        "TGI serves Llama 3.1 70B on 2 A100 GPUs with 80GB each, and after the warmup succeeded we see CUDA out of memory.\n\
         Default `max_batch_prefill_tokens` to 10049",
        Serving,
        "undecided",
        P::Unknown,
        R::MaxModelLen,
    ),
    (
        "numpy's message without a size",
        "MemoryError:Unable to allocate array with shape (9146090,75) and data type float64",
        Unknown,
        "host-memory",
        P::Unknown,
        R::MoreRam,
    ),
];
