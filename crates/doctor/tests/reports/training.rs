//! Reports of training.

use fitgpt_doctor::{
    Domain::{DecoderTraining, NanoGpt, OtherTraining},
    PhaseName as P, Remedy as R,
};

use crate::ReportCase;

pub(crate) const ROWS: &[ReportCase] = &[
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
        "NCCL on a full card",
        "training step 96\ntorch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp:1333, unhandled cuda error\n\
         ncclUnhandledCudaError: Call to CUDA function failed.\nLast error:\nFailed to CUDA calloc async 4 bytes",
        OtherTraining,
        "communicator-buffers",
        P::Unknown,
        R::OneRankPerCard,
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
        "the settings of a run and one word",
        "model_name_or_path: /models/Qwen2.5-1.5B-Instruct\nfinetuning_type: full\ncutoff_len: 8192\n\
         per_device_train_batch_size: 4\n运行之后报oom，怎么办",
        DecoderTraining,
        "undecided",
        P::Unknown,
        R::SmallerMicroBatch,
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
        "an engine inside preference tuning fails in the backward pass",
        "Occasional OOM in loss.backward() of our GRPO run; the rollout engine is vllm and the actor uses FSDP.",
        DecoderTraining,
        "undecided",
        P::TrainBackward,
        R::SmallerMicroBatch,
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
        "Metal's limit of buffers",
        "python -m mlx_lm lora --config lora.yaml\nRuntimeError: [metal::malloc] Resource limit (499000) exceeded.",
        DecoderTraining,
        "unified-memory-limit",
        P::Unknown,
        R::SmallerMicroBatch,
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
        "a model that does not fit, without an error",
        "Fine-tuning a 6B model with 16Gb of VRAM: I tried gradient checkpointing, and the model still doesn't fit.",
        OtherTraining,
        "static-state-too-large",
        P::Unknown,
        R::Lora,
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
        "full training of a named model, in Japanese",
        "RTX 3090（24GB）1枚でLlama-2-7bをフルファインチューニングするとCUDA out of memoryになります",
        DecoderTraining,
        "static-state-too-large",
        P::Unknown,
        R::Lora,
    ),
];
