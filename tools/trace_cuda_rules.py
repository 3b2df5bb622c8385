#!/usr/bin/env python3
"""Checks the rules of `count_torch_memory.py` and the planner for CUDA, on fake CUDA tensors.

Fake CUDA tensors need neither a card nor a driver as long as autograd does not record them. Each
check runs one op and compares the tensors that it makes; the first difference ends the script with
exit code 1. Written with PyTorch 2.15.

    trace_cuda_rules.py

Not checked, because kernels allocate them internally: cuBLAS workspaces (8.1 MiB for each thread
that multiplies, 32 MiB from Hopper on), the float32 accumulator of flash attention's backward, and
partial sums of `_foreach_norm`. Not counted, because they are small: the state of flash attention's
generator (1 KiB per layer), and the scale and counters of `GradScaler` (a few times 512 bytes).
"""

import sys

import torch
import torch.cuda.amp.common
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Without a driver, autocast for CUDA disables itself.
torch.cuda.amp.common.amp_definitely_not_available = lambda: False
torch.cuda.is_bf16_supported = lambda *_, **__: True

HALF, FULL = torch.bfloat16, torch.float32


class Made(TorchDispatchMode):
    """Every op that ran, with the CUDA tensors it made: (name, [(shape, dtype)])."""

    def __init__(self):
        super().__init__()
        self.ops = []

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        result = op(*args, **(kwargs or {}))
        tensors = [t for t in tree_leaves(result) if isinstance(t, torch.Tensor)]
        made = [(tuple(t.shape), t.dtype) for t in tensors if t.device.type == "cuda"]
        if made:
            self.ops.append((op.overloadpacket.__name__, made))
        return result


def made_by(run, *, autocast=False):
    with Made() as made, torch.autocast("cuda", dtype=HALF, enabled=autocast):
        run()
    return made.ops


def tensor(*shape, dtype=FULL):
    return torch.empty(*shape, dtype=dtype, device="cuda")


def expect(what, got, wanted):
    if got != wanted:
        sys.exit(f"{what}: {got}, expected {wanted}")
    print(f"{what}: {wanted}")


def loss():
    logits, targets = tensor(8, 50, dtype=HALF), torch.empty(8, dtype=torch.long, device="cuda")
    ops = made_by(lambda: F.cross_entropy(logits, targets, ignore_index=-1), autocast=True)
    steps = [(name, made[0]) for name, made in ops]
    wanted = [
        ("_log_softmax", ((8, 50), HALF)),
        ("_to_copy", ((8, 50), FULL)),
        ("nll_loss_forward", ((), FULL)),
    ]
    expect("cross_entropy of half logits", steps, wanted)


def softmax():
    scores = tensor(2, 3, dtype=HALF)
    ops = made_by(lambda: F.softmax(scores, -1), autocast=True)
    expect("softmax of half scores", [name for name, _ in ops], ["_to_copy", "_softmax"])


def dropout():
    x = tensor(4, 4)
    ops = made_by(lambda: F.dropout(x, 0.1, True))
    expect("dropout", ops, [("native_dropout", [((4, 4), FULL), ((4, 4), torch.bool)])])


def flash():
    q, k, v = (tensor(2, 4, 33, 64, dtype=HALF) for _ in range(3))
    run = torch.ops.aten._scaled_dot_product_flash_attention
    (_, made), = made_by(lambda: run(q, k, v, 0.1, True))
    expect("flash attention", made[:2], [((2, 4, 33, 64), HALF), ((2, 4, 33), FULL)])
    generator = [((2,), torch.uint64), ((), torch.uint64)]
    expect("flash attention, its generator", made[2:4], generator)


def efficient():
    q, k, v = (tensor(2, 4, 33, 64) for _ in range(3))
    run = torch.ops.aten._scaled_dot_product_efficient_attention
    (_, recorded), = made_by(lambda: run(q, k, v, None, True, 0.1, True))
    expect("memory-efficient attention", recorded[1], ((2, 4, 64), FULL))
    (_, alone), = made_by(lambda: run(q, k, v, None, False, 0.1, True))
    expect("memory-efficient attention without autograd", alone[1], ((2, 4, 0), FULL))


def padding():
    q = tensor(2, 33, 4, 50, dtype=HALF).transpose(1, 2)
    ops = made_by(lambda: F.pad(q, (0, 6)))
    expect("heads filled up", ops, [("constant_pad_nd", [((2, 4, 33, 56), HALF)])])
    wide = tensor(2, 4, 33, 56, dtype=HALF)
    ops = made_by(lambda: torch.ops.aten.constant_pad_nd(wide, [0, -6]))
    expect("heads cut back", ops, [("constant_pad_nd", [((2, 4, 33, 50), HALF)])])


def steps_on_device(**kind):
    parameters = [torch.nn.Parameter(tensor(4, 4)) for _ in range(3)]
    for parameter in parameters:
        parameter.grad = tensor(4, 4)
    optimizer = torch.optim.AdamW(parameters, **kind)
    optimizer.step()
    return {optimizer.state[parameter]["step"].device.type for parameter in parameters}


def main():
    with FakeTensorMode(), torch.no_grad():
        loss()
        softmax()
        dropout()
        flash()
        efficient()
        padding()
        expect("steps of fused AdamW", steps_on_device(fused=True), {"cuda"})
        expect("steps of AdamW in lists", steps_on_device(foreach=True), {"cpu"})


if __name__ == "__main__":
    main()
