//! Invented reports in the form of public ones, with the diagnosis an expert would make.
//!
//! `docs/doctor.md` has the results on real ones.

use fitgpt_doctor::{
    Certainty, Context, Diagnosis, Domain, PhaseName, Remedy, diagnose, parse::Log,
};

/// Name; log; domain; the first cause, or `undecided`; the phase; a remedy that must be among the first four.
type ReportCase = (&'static str, &'static str, Domain, &'static str, PhaseName, Remedy);

use Domain::{DecoderTraining, Inference, NanoGpt, OtherTraining, Serving, Unknown};
use PhaseName as P;
use Remedy as R;

const ROWS: &[ReportCase] = &[
    (
        "full fine-tuning of a 7B model on one card",
        "python tune.py --model_name_or_path models/llama-7b-hf --per_device_train_batch_size 2\n\
         Traceback (most recent call last):\n  File \"tune.py\", line 90, in <module>\n    trainer.train()\n  \
         File \"/lib/transformers/trainer.py\", line 2001, in training_step\n    loss.backward()\n\
         torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 86.00 MiB (GPU 0; 79.20 GiB total capacity; \
         77.31 GiB already allocated; 49.19 MiB free; 78.40 GiB reserved in total by PyTorch)",
        DecoderTraining,
        "static-state-too-large",
        P::TrainBackward,
        R::Lora,
    ),
    (
        "logits in fine-tuning",
        "trainer.train()\nTraceback (most recent call last):\n  File \"/lib/transformers/trainer.py\", line 3100, in compute_loss\n    \
         outputs = model(**inputs)\n  File \"/lib/transformers/models/qwen2/modeling_qwen2.py\", line 880, in forward\n    \
         logits = self.lm_head(hidden_states)\n\
         torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.32 GiB. GPU 0 has a total capacity of 23.64 GiB of which 1.10 GiB \
         is free. Including non-PyTorch memory, this process has 22.53 GiB memory in use. Of the allocated memory 21.90 GiB is allocated \
         by PyTorch, and 201.05 MiB is reserved by PyTorch but unallocated.",
        DecoderTraining,
        "logits-at-the-peak",
        P::TrainForward,
        R::ChunkedLoss,
    ),
    (
        "predictions of a whole evaluation",
        "Traceback (most recent call last):\n  File \"glue.py\", line 300, in main\n    trainer.evaluate()\n  \
         File \"/lib/transformers/trainer.py\", line 2600, in evaluation_loop\n    \
         preds_host = logits if preds_host is None else nested_concat(preds_host, logits)\n\
         RuntimeError: CUDA out of memory. Tried to allocate 5.11 GiB (GPU 0; 23.70 GiB total capacity; 16.02 GiB already \
         allocated; 4.59 GiB free; 17.10 GiB reserved in total by PyTorch)",
        DecoderTraining,
        "evaluation-gathers-predictions",
        P::Evaluate,
        R::EvalAccumulation,
    ),
    (
        "a sharded model gathered to be saved",
        "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"pretrain.py\", line 700, in save_checkpoint\n[rank3]:     \
         state = model.state_dict()\n[rank3]:   File \"/lib/torch/distributed/fsdp/_state_dict_utils.py\", line 303, in \
         _full_pre_state_dict_hook\n[rank3]:     _common_unshard_pre_state_dict_hook(\n[rank3]: torch.OutOfMemoryError: CUDA out of memory. \
         Tried to allocate 512.00 MiB. GPU 3 has a total capacity of 79.11 GiB of which 301.00 MiB is free. Including non-PyTorch \
         memory, this process has 78.80 GiB memory in use.",
        OtherTraining,
        "gather-on-save",
        P::Save,
        R::FullStateOffload,
    ),
    (
        "the optimizer's flat state of DeepSpeed",
        "Traceback (most recent call last):\n  File \"pretrain_gpt.py\", line 600, in main\n    engine = deepspeed.initialize(model=model)\n  \
         File \"/lib/deepspeed/runtime/zero/stage_1_and_2.py\", line 500, in __init__\n    self.initialize_optimizer_states()\n\
         RuntimeError: CUDA out of memory. Tried to allocate 4.90 GiB (GPU 0; 31.72 GiB total capacity; 26.20 GiB already allocated; \
         3.80 GiB free; 26.90 GiB reserved in total by PyTorch)",
        DecoderTraining,
        "flat-copy",
        P::Start,
        R::ZeroStage3,
    ),
    (
        "a detector with a large batch",
        "python train.py --data coco.data --cfg yolov3.cfg --batch-size 32\nTraceback (most recent call last):\n  \
         File \"train.py\", line 255, in train\n    pred = model(imgs)\n  File \"/lib/torch/nn/modules/conv.py\", line 343, in forward\n    \
         return self.conv2d_forward(input, self.weight)\nRuntimeError: CUDA out of memory. Tried to allocate 170.00 MiB (GPU 0; \
         10.91 GiB total capacity; 9.70 GiB already allocated; 128.69 MiB free; 402.15 MiB cached)",
        OtherTraining,
        "batch-too-large",
        P::TrainForward,
        R::SmallerMicroBatch,
    ),
    (
        "a user-defined validation function",
        "Traceback (most recent call last):\n  File \"trainer.py\", line 164, in train\n    loss = self.val_one_epoch(loader)\n  \
         File \"trainer.py\", line 77, in val_one_epoch\n    loss = self.model(batch)\n  File \"resnet.py\", line 9, in forward\n    x = self.conv1(x)\n\
         torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 784.00 MiB. GPU 0 has a total capacity of 23.52 GiB of which \
         391.62 MiB is free. Including non-PyTorch memory, this process has 22.53 GiB memory in use. Of the allocated memory 21.90 GiB is \
         allocated by PyTorch, and 176.73 MiB is reserved by PyTorch but unallocated.",
        OtherTraining,
        "batch-too-large",
        P::Evaluate,
        R::EvalBatch,
    ),
    (
        "another process on the card",
        "python train.py\nepoch 1\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 76.00 MiB. GPU 0 has a total capacity of 14.74 GiB \
         of which 42.19 MiB is free. Process 4119 has 10.77 GiB memory in use. Process 4122 has 3.90 GiB memory in use. Of the \
         allocated memory 3.60 GiB is allocated by PyTorch, and 42.18 MiB is reserved by PyTorch but unallocated.",
        OtherTraining,
        "foreign-memory",
        P::Unknown,
        R::FreeTheCard,
    ),
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
        "a shape printed by TensorFlow",
        "keras model.fit(x)\nResourceExhaustedError: OOM when allocating tensor with shape[64,112,112,64] and type float on \
         /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc",
        OtherTraining,
        "batch-too-large",
        P::Unknown,
        R::SmallerMicroBatch,
    ),
    (
        "Apple's limit",
        "trainer.fit(model)\nRuntimeError: MPS backend out of memory (MPS allocated: 7.43 GB, other allocations: 24.46 GB, max allowed: 32.00 GB). \
         Tried to allocate 129.21 MB on private pool.",
        OtherTraining,
        "unified-memory-limit",
        P::Unknown,
        R::CloseApps,
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
        "NCCL on a full card",
        "training step 96\ntorch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1333, unhandled cuda error\n\
         ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nFailed to CUDA calloc async 4 bytes",
        OtherTraining,
        "communicator-buffers",
        P::Unknown,
        R::OneRankPerCard,
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
        "a request larger than any card",
        "yolo training\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 1936.00 GiB (GPU 1; 11.17 GiB total capacity; 2.15 GiB already \
         allocated; 7.62 GiB free; 3.02 GiB reserved in total by PyTorch)",
        OtherTraining,
        "request-larger-than-card",
        P::Unknown,
        R::FindTheShape,
    ),
    (
        "a fragmented card",
        "Traceback (most recent call last):\n  File \"train.py\", line 300, in validation_step\n    out = self.model(x)\n\
         RuntimeError: CUDA out of memory. Tried to allocate 2.05 GiB (GPU 2; 23.70 GiB total capacity; 12.55 GiB already allocated; \
         1.05 GiB free; 20.80 GiB reserved in total by PyTorch)",
        OtherTraining,
        "fragmentation",
        P::Evaluate,
        R::ExpandableSegments,
    ),
    (
        "nanoGPT's step after an evaluation",
        "step 0: train loss 10.9, val loss 10.9\nRuntimeError: CUDA out of memory. Tried to allocate 786.00 MiB (GPU 0; 15.78 GiB total capacity; \
         14.28 GiB already allocated; 620.69 MiB free; 14.32 GiB reserved in total by PyTorch)",
        NanoGpt,
        "batch-too-large",
        P::TrainForward,
        R::SmallerMicroBatch,
    ),
    (
        "a data loader worker killed by a bus error, without an explanation",
        "Traceback (most recent call last):\n  File \"fit.py\", line 51, in epoch\n    for x, y in loader:\n  \
         File \"/lib/torch/utils/data/dataloader.py\", line 178, in handler\n    _error_if_any_worker_fails()\n\
         RuntimeError: DataLoader worker (pid 77) is killed by signal: Bus error.",
        OtherTraining,
        "dev-shm",
        P::Unknown,
        R::ShmSize,
    ),
    (
        "the optimizer state of ZeRO, described in prose",
        "Fine-tuning Zephyrus-8B-Instruct on 2 cards with DeepSpeed ZeRO-2.\n\
         torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 15.1 GiB.\nIt happens during optimizer state initialization.",
        DecoderTraining,
        "flat-copy",
        P::Start,
        R::ZeroStage3,
    ),
    (
        "a model moved to one card before it is sharded",
        "step 3 of DeepSpeed-Chat with OPT-66B and zero3\n  File \"/lib/torch/nn/modules/module.py\", line 1143, in convert\n    return t.to(device)\n\
         torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 648.00 MiB (GPU 0; 79.15 GiB total capacity; 77.91 GiB \
         already allocated; 502.00 MiB free; 78.02 GiB reserved in total by PyTorch)",
        DecoderTraining,
        "weights-too-large",
        P::Load,
        R::Fsdp,
    ),
    (
        "a 7B model at the end of a sentence",
        "I get an error during training when finetuning Mistral 7B. My card has 24 GB.\n\
         torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 898.00 MiB. GPU 0 has a total capacity of 21.99 GiB of \
         which 751.00 MiB is free. Including non-PyTorch memory, this process has 21.20 GiB memory in use. Of the allocated memory \
         20.52 GiB is allocated by PyTorch, and 102.08 MiB is reserved by PyTorch but unallocated.",
        DecoderTraining,
        "static-state-too-large",
        P::Unknown,
        R::Lora,
    ),
    (
        "an error without numbers while loading",
        "pytorch_lightning: initializing ddp\nTraceback (most recent call last):\n  File \"fit.py\", line 78, in main\n    \
         trainer.fit(model)\n  File \"/lib/torch/nn/modules/module.py\", line 899, in to\n    return self._apply(convert)\n\
         RuntimeError: CUDA error: out of memory",
        OtherTraining,
        "weights-too-large",
        P::Load,
        R::FreeTheCard,
    ),
    (
        "an engine that takes its memory back between training steps",
        "(trainer pid=81)   File \"/src/verl/workers/rollout.py\", line 70, in __enter__\n(trainer pid=81)     \
         self.engine.wake_up()\n(trainer pid=81)   File \"/lib/vllm/entrypoints/llm.py\", line 1200, in wake_up\n(trainer pid=81)     \
         self.llm_engine.wake_up()\n(trainer pid=81) RuntimeError: CUDA Error: out of memory at /src/csrc/cumem_allocator.cpp:60",
        DecoderTraining,
        "server-reservation",
        P::Serve,
        R::GpuMemoryUtilization,
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
        "a trainer that moves a 13B model to the card",
        "fine-tuning llama-2-13b with zero3\nTraceback (most recent call last):\n  File \"rm.py\", line 38, in run\n    \
         trainer = PairTrainer(\n  File \"/lib/transformers/trainer.py\", line 480, in __init__\n    \
         self._move_model_to_device(model, args.device)\n\
         torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 136.00 MiB. GPU 0 has a total capacity of 23.64 GiB of which \
         80.00 MiB is free. Process 501 has 400.00 MiB memory in use. Process 502 has 400.00 MiB memory in use. Process 500 has 22.70 GiB \
         memory in use. Of the allocated memory 22.20 GiB is allocated by PyTorch, and 2.00 MiB is reserved by PyTorch but unallocated.",
        DecoderTraining,
        "weights-too-large",
        P::Load,
        R::QuantizeWeights,
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
        "the settings of a run and one word",
        "model_name_or_path: /models/Qwen2.5-1.5B-Instruct\nfinetuning_type: full\ncutoff_len: 8192\n\
         per_device_train_batch_size: 4\n运行之后报oom，怎么办",
        DecoderTraining,
        "undecided",
        P::Unknown,
        R::SmallerMicroBatch,
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
        "PaddlePaddle training on a full card",
        "正在训练分割模型\nTraceback (most recent call last):\n  File \"train.py\", line 88, in train\n    logits = model(images)\n  \
         File \"/lib/paddle/nn/layer.py\", line 9, in forward\n    y = self.backbone(x)\n\
         ResourceExhaustedError: Out of memory error on GPU 0. Cannot allocate 1.500000GB memory on GPU 0, 9.250000GB memory has \
         been allocated and available memory is only 412.000000MB.\n\
         Please check whether there is any other process using GPU 0.",
        OtherTraining,
        "batch-too-large",
        P::TrainForward,
        R::SmallerMicroBatch,
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
        "an engine inside preference tuning fails in the backward pass",
        "Occasional OOM in loss.backward() of our GRPO run; the rollout engine is vllm and the actor uses FSDP.",
        DecoderTraining,
        "undecided",
        P::TrainBackward,
        R::SmallerMicroBatch,
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
        "a description with hyphens, and settings of a training run",
        "Any advice on our CUDA out-of-memory errors? We fine-tune the tabular model on two 16 GB cards.\n{'batch_size': 2, 'amp': True}",
        OtherTraining,
        "undecided",
        P::Unknown,
        R::SmallerMicroBatch,
    ),
    (
        "adapters trained with MLX on a Mac",
        "$ mlx_lm.lora --model small-llama --train\nIter 20: Train loss 1.1, Peak mem 27.1 GB\nlibc++abi: terminating due to uncaught \
         exception of type std::runtime_error: [METAL] Command buffer execution failed: Insufficient Memory",
        DecoderTraining,
        "unified-memory-limit",
        P::Unknown,
        R::GradientCheckpointing,
    ),
    (
        "a step compiled for a TPU core",
        "jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: XLA:TPU compile permanent error. Ran out of memory in memory space \
         hbm. Used 19.20G of 7.48G hbm. Exceeded hbm capacity by 11.72G.\ntrainer.train(state)",
        DecoderTraining,
        "undecided",
        P::Unknown,
        R::HalfPrecision,
    ),
    (
        "NCCL's own warning, without PyTorch's numbers",
        "node7:311:405 [2] enqueue.cc:1085 NCCL WARN Cuda failure 'out of memory'\n  File \"train.py\", line 9, in <module>\n    \
         dist.all_reduce(grads)\nRuntimeError: NCCL Error 1: unhandled cuda error",
        OtherTraining,
        "communicator-buffers",
        P::Unknown,
        R::OneRankPerCard,
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
        "a launcher that reports signal 7",
        "deepspeed tune.py --deepspeed zero3.json --dataloader_num_workers 4\n[ERROR] [launch.py:321] ['python', '-u', 'tune.py'] \
         exits with return code = -7",
        OtherTraining,
        "dev-shm",
        P::Unknown,
        R::ShmSize,
    ),
    (
        "memory that grows",
        "While my network trains, GPU memory keeps increasing in every epoch until CUDA out of memory.",
        OtherTraining,
        "memory-grows",
        P::Unknown,
        R::KeepNumbers,
    ),
    (
        "memory that grows, in Chinese",
        "训练时显存一直增加，最后显存不足",
        OtherTraining,
        "memory-grows",
        P::Unknown,
        R::KeepNumbers,
    ),
    (
        "a failure after many epochs",
        "Training ran well, then CUDA out of memory after 31 epochs.",
        OtherTraining,
        "memory-grows",
        P::Unknown,
        R::SmallerMicroBatch,
    ),
    (
        "a question in German",
        "Ich trainiere ein BERT-Modell auf einer Karte mit 12 GB, aber der Grafikspeicher reicht nicht. Batchgröße 32.",
        OtherTraining,
        "undecided",
        P::Unknown,
        R::SmallerMicroBatch,
    ),
    (
        "a question in Japanese",
        "学習を始めるとGPUメモリ不足で止まります。PyTorchのResNetです。",
        OtherTraining,
        "undecided",
        P::Unknown,
        R::SmallerMicroBatch,
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
        "the entropy of a policy is computed from logits",
        "(WorkerDict pid=7)   File \"/opt/verl/workers/actor/dp_actor.py\", line 271, in _forward_micro_batch\n(WorkerDict pid=7)     \
         entropy = verl_F.entropy_from_logits(logits)\n(WorkerDict pid=7)   File \"/opt/verl/utils/torch_functional.py\", line 150, in \
         entropy_from_logits\n(WorkerDict pid=7)     pd = torch.nn.functional.softmax(logits, dim=-1)\n(WorkerDict pid=7) \
         torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 18.55 GiB. GPU 3 has a total capacity of 79.25 GiB of which \
         9.41 GiB is free. Process 7 has 69.83 GiB memory in use. Of the allocated memory 61.02 GiB is allocated by PyTorch, and 7.11 \
         GiB is reserved by PyTorch but unallocated.",
        DecoderTraining,
        "logits-at-the-peak",
        P::Unknown,
        R::ChunkedLoss,
    ),
    (
        "logits of a script that no clue names",
        "Traceback (most recent call last):\n  File \"base_train.py\", line 251, in <module>\n    loss = net(x, y)\n  File \"tiny.py\", \
         line 283, in forward\n    logits = logits.float()\ntorch.OutOfMemoryError: CUDA out of memory. Tried to allocate 16.00 GiB. \
         GPU 0 has a total capacity of 23.52 GiB of which 6.77 GiB is free. Including non-PyTorch memory, this process has 16.74 GiB \
         memory in use. Of the allocated memory 16.22 GiB is allocated by PyTorch, and 88.61 MiB is reserved by PyTorch but unallocated.",
        OtherTraining,
        "logits-at-the-peak",
        P::TrainForward,
        R::ChunkedLoss,
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
        "Metal's limit of buffers",
        "python -m mlx_lm lora --config lora.yaml\nRuntimeError: [metal::malloc] Resource limit (499000) exceeded.",
        DecoderTraining,
        "unified-memory-limit",
        P::Unknown,
        R::SmallerMicroBatch,
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
        "full training on one card of a text, with an engine",
        "单张A100 80G上全参数微调 qwen-7b 报OOM，用了deepspeed也一样",
        DecoderTraining,
        "static-state-too-large",
        P::Unknown,
        R::ZeroOffload,
    ),
    (
        "sharded training on a number of cards in another script",
        "四张A800 80g，全参微调32B OOM\nmodel_name_or_path: /m/Qwen2.5-32B\nfinetuning_type: full\ndeepspeed: ds_z3_config.json",
        DecoderTraining,
        "static-state-too-large",
        P::Unknown,
        R::ZeroOffload,
    ),
    (
        "a model that is being loaded on many cards",
        "FSDP finetuning of Llama-2-70b on 8 GPUs fails with CUDA out of memory while the model is being loaded",
        DecoderTraining,
        "weights-too-large",
        P::Load,
        R::Fsdp,
    ),
    (
        "host memory during a save, in Chinese",
        "保存checkpoint时 CPU 内存涨到 300GB 然后 OOM（14B 模型，8 卡训练）",
        OtherTraining,
        "host-memory",
        P::Save,
        R::MoreRam,
    ),
    (
        "a save that fails where training did not, in Chinese",
        "训练时候没有报OOM，model.save_pretrained(out)保存的时候报了",
        OtherTraining,
        "undecided",
        P::Save,
        R::FullStateOffload,
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
        "use of the card's memory that rises, in a heading",
        "VRAM usage rises over time\ntraining begins with 12.1GB, and after 800 steps the VRAM is full",
        OtherTraining,
        "memory-grows",
        P::Unknown,
        R::KeepNumbers,
    ),
    (
        "memory that Windows lends",
        "WIN11, RTX 3060: GPU memory is full (11.8 of 12 GB) and 4 GB of shared GPU memory are used. Training my resnet is very slow.",
        OtherTraining,
        "spilled-to-host",
        P::Unknown,
        R::SysmemFallback,
    ),
    (
        "an evaluation that fails where training fits",
        "用 LLaMA-Factory 训练时显存够用，但一到 eval 就 OOM",
        DecoderTraining,
        "evaluation-gathers-predictions",
        P::Evaluate,
        R::EvalAccumulation,
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
        "a model that does not fit, without an error",
        "Fine-tuning a 6B model with 16Gb of VRAM: I tried gradient checkpointing, and the model still doesn't fit.",
        OtherTraining,
        "static-state-too-large",
        P::Unknown,
        R::Lora,
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
        "shared memory without an error",
        "stuck at the first epoch of my training, 310s/it\nDedicated GPU memory 7.7/8.0GB\nShared GPU memory 1.9/7.9GB",
        OtherTraining,
        "spilled-to-host",
        P::Unknown,
        R::SysmemFallback,
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
        "full training of a named model, in Japanese",
        "RTX 3090（24GB）1枚でLlama-2-7bをフルファインチューニングするとCUDA out of memoryになります",
        DecoderTraining,
        "static-state-too-large",
        P::Unknown,
        R::Lora,
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

fn of(log: &str) -> Diagnosis {
    diagnose(&Log::read(log.as_bytes()), &Context::new())
}

#[test]
fn every_report_gets_the_right_cause_phase_and_remedy() {
    for (name, log, domain, cause, phase, remedy) in ROWS {
        let diagnosis = of(log);
        assert_eq!(diagnosis.domain, *domain, "{name}");
        // Without evidence there is no cause, but a list of what remains.
        let first = diagnosis.findings.iter().find(|f| f.is_cause || f.rule() == "undecided");
        let first = first.map(fitgpt_doctor::Finding::rule);
        assert_eq!(first, Some(*cause), "{name}: {diagnosis:#?}");
        assert_eq!(diagnosis.phase.name, *phase, "{name}");
        let mut advice = diagnosis.advice.iter().take(4).map(|advice| advice.id);
        assert!(advice.any(|id| id == *remedy), "{name}: {:?}", diagnosis.advice);
        let next = &diagnosis.do_next;
        assert!(next.command.is_some() || next.question.is_some(), "{name}");
    }
}

#[test]
fn no_gpt2_tensor_is_named_for_another_model() {
    for (name, log, domain, ..) in ROWS {
        if !matches!(domain, NanoGpt | DecoderTraining) {
            assert_eq!(
                of(log).tensors.iter().filter(|t| t.supposing.is_some()).count(),
                0,
                "{name}"
            );
        }
    }
}

#[test]
fn a_remedy_already_in_use_is_not_recommended() {
    let (_, log, ..) = ROWS[5];
    let advised = |log: &str| of(log).advice.iter().any(|a| a.id == R::GradientCheckpointing);
    assert!(advised(log));
    assert!(!advised(&format!("gradient_checkpointing=True\n{log}")));
}

#[test]
fn a_quota_of_a_web_service_is_not_memory() {
    let quota = of("429 RESOURCE_EXHAUSTED: Quota exceeded for quota metric 'requests per minute'");
    assert_eq!((quota.domain, quota.findings), (Domain::None, Vec::new()));
}

#[test]
fn a_cause_from_numbers_alone_is_only_possible() {
    let bare = of(
        "Tried to allocate 20.00 MiB (GPU 0; 1.96 GiB total capacity; 1.24 GiB already allocated; 2.88 MiB free; 1.25 GiB \
         reserved in total by PyTorch)",
    );
    assert!(bare.findings.iter().all(|f| !f.is_cause || f.certainty == Certainty::Unknown));
    assert!(bare.do_next.question.is_some());
}

/// The account of a log, as names and whole GiB.
fn account(log: &str) -> Option<Vec<(String, u64)>> {
    let account = of(log).account?;
    let gib = |bytes: u64| (bytes + (1 << 29)) >> 30;
    Some(
        account.parts.iter().map(|part| (part.name.as_str().to_owned(), gib(part.bytes))).collect(),
    )
}

/// A failed backward pass of a trainer, with so much allocated.
fn backward(setup: &str, allocated_gib: &str) -> String {
    format!(
        "{setup}\nTraceback (most recent call last):\n  File \"/lib/transformers/trainer.py\", line 2001, in training_step\n    \
         loss.backward()\ntorch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 86.00 MiB (GPU 0; 79.20 GiB total \
         capacity; {allocated_gib} GiB already allocated; 49.19 MiB free; 78.40 GiB reserved in total by PyTorch)"
    )
}

#[test]
fn full_training_of_a_named_model_is_accounted_for() {
    let setup =
        "--model_name_or_path models/Llama-2-7b-hf --optim adamw_torch torch_dtype=torch.bfloat16";
    let shares = account(&backward(setup, "53.10")).unwrap();
    let names: Vec<_> = shares.iter().map(|(name, gib)| (name.as_str(), *gib)).collect();
    assert_eq!(names, [("weights", 13), ("gradients", 13), ("optimizer state", 25)]);
    // Twice as much is held: this is not how it was trained.
    assert_eq!(account(&backward(setup, "77.10")), None);
    // Without an optimizer nothing is assumed.
    let setup = "--model_name_or_path models/Llama-2-7b-hf torch_dtype=torch.bfloat16";
    assert_eq!(account(&backward(setup, "53.10")), None);
}

#[test]
fn sharding_divides_the_state_by_the_ranks() {
    let setup = "torchrun --nproc_per_node=8 tune.py --model_name_or_path models/Llama-2-13b-hf --optim adamw_torch \
        --fsdp full_shard torch_dtype=torch.bfloat16";
    let shares = account(&backward(setup, "12.20")).unwrap();
    let names: Vec<_> = shares.iter().map(|(name, gib)| (name.as_str(), *gib)).collect();
    assert_eq!(names, [("weights", 3), ("gradients", 3), ("optimizer state", 6)]);
}

#[test]
fn adapters_on_four_bit_weights_are_accounted_for() {
    let setup = "qlora.py --model_name_or_path models/Llama-2-7b-hf --load_in_4bit --optim adamw_torch\n\
        trainable params: 159,907,840 || all params: 6,898,323,456 || trainable%: 2.3";
    let shares = account(&backward(setup, "6.10")).unwrap();
    let names: Vec<_> = shares.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["weights", "adapters and their state"]);
}
