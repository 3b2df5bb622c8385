"""Ops that PyTorch composes differently on CUDA.

Most ops are the same tree of kernels on every device. A few look at the device in C++ and choose:
dropout keeps its mask in bytes, attention picks a fused kernel. C++ takes our fake CUDA tensors
for `meta` tensors, so these are written out again here, after PyTorch's own C++
(`aten/src/ATen/native/Dropout.cpp`, `transformers/attention.cpp`, `cuda/sdp_utils.cpp`,
`layer_norm.cpp`, `RNN.cpp`). The tests compare each with stock fake CUDA tensors without autograd.
"""

import math

import torch
import torch.nn.functional as F
from torch.utils._python_dispatch import TorchDispatchMode

aten = torch.ops.aten


class Rules:
    """Replacements by op, for a card of one compute capability."""

    def __init__(self, capability):
        self.capability = tuple(capability)
        self.takes_3d = _attention_takes_3d()
        self.ops = {
            aten.dropout.default: dropout,
            aten.dropout_.default: dropout_,
            aten.scaled_dot_product_attention.default: self.attention,
        }
        if _fuses_rms_norm():
            self.ops[aten.rms_norm.default] = rms_norm

    def register(self, library):
        for op, kernel in self.ops.items():
            library.impl(op._schema.name.removeprefix("aten::"), kernel, "AutogradCUDA")

    def attention(
        self, query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False,
        *, scale=None, enable_gqa=False,
    ):  # fmt: skip
        if self.takes_3d and query.dim() == key.dim() == value.dim() == 3:
            mask = attn_mask
            while mask is not None and mask.dim() < 4:
                mask = mask.unsqueeze(0)
            parts = (t.unsqueeze(0) for t in (query, key, value))
            return self.attention(
                *parts, mask, dropout_p, is_causal, scale=scale, enable_gqa=enable_gqa
            ).squeeze(0)
        kernel = self.attention_kernel(query, key, value, attn_mask, dropout_p, is_causal, enable_gqa)
        mask = _additive(attn_mask, query.dtype)
        if kernel == "flash":
            size = query.size(-1)
            scale = 1 / math.sqrt(size) if scale is None else scale
            q, k, v = (_pad_to_8(t) for t in (query, key, value))
            out = aten._scaled_dot_product_flash_attention(
                q, k, v, dropout_p, is_causal, False, scale=scale
            )[0]
            return out if out.size(-1) == size else out[..., :size]
        if kernel == "efficient":
            keeps = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
            if mask is not None:
                mask = _aligned(mask).expand(*query.shape[:3], key.size(2))
            return aten._scaled_dot_product_efficient_attention(
                query, key, value, mask, keeps, dropout_p, is_causal, scale=scale
            )[0]
        kwargs = {"enable_gqa": True} if enable_gqa else {}
        return aten._scaled_dot_product_attention_math(
            query, key, value, mask, dropout_p, is_causal, None, scale=scale, **kwargs
        )[0]

    def attention_kernel(self, query, key, value, mask, dropout_p, is_causal, enable_gqa):
        """The kernel that CUDA runs: flash, efficient, or the plain ops of `math`."""
        if any(t.dim() != 4 for t in (query, key, value)) or query.size(0) != key.size(0):
            return "math"
        if 0 in query.shape or 0 in key.shape:
            return "math"
        grads = torch.is_grad_enabled() and any(t.requires_grad for t in (query, key, value))
        same_heads = query.size(1) == key.size(1) == value.size(1)
        is_half = query.dtype in (torch.float16, torch.bfloat16)
        size = query.size(-1)
        flash = (
            torch.backends.cuda.flash_sdp_enabled()
            and self.capability >= (8, 0)
            and is_half
            and mask is None
            and size == key.size(-1) == value.size(-1) <= 256
            and (same_heads or enable_gqa)
            and not (is_causal and query.size(2) != key.size(2))
            and not (grads and size > 192 and self._has_small_shared_memory(size, dropout_p))
            and all(t.stride(-1) == 1 or t.size(-1) == 1 for t in (query, key, value))
        )
        if flash:
            return "flash"
        align = self._gemm_alignment(is_half)
        efficient = (
            torch.backends.cuda.mem_efficient_sdp_enabled()
            and query.dtype in self._efficient_types()
            and same_heads
            and size == key.size(-1)
            and size % align == 0
            and value.size(-1) % align == 0
            and all(t.stride(-1) == 1 for t in (query, key, value))
            and (mask is None or mask.stride(-1) in (0, 1))
        )
        return "efficient" if efficient else "math"

    def _has_small_shared_memory(self, size, dropout_p):
        """Whether flash attention's backward lacks heads this large on this card."""
        is_small = self.capability in ((8, 6), (8, 9), (12, 0), (12, 1))
        return is_small and (size <= 224 or dropout_p > 0)

    def _gemm_alignment(self, is_half):
        align = 4 if self.capability >= (8, 0) else 1
        if self.capability >= (8, 0) or (self.capability >= (7, 0) and is_half):
            align = max(align, 8 if is_half else 4)
        return align

    def _efficient_types(self):
        types = [torch.float16, torch.float32]
        return [*types, torch.bfloat16] if self.capability >= (8, 0) else types


def _attention_takes_3d():
    """Whether this PyTorch adds a batch axis to attention without one."""
    part = torch.empty(1, 2, 8, device="meta")
    with _Ops() as seen:
        F.scaled_dot_product_attention(part, part, part)
    return aten.unsqueeze.default in seen.ops


class _Ops(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.ops = set()

    def __torch_dispatch__(self, op, types, args=(), kwargs=None):
        self.ops.add(op)
        return op(*args, **(kwargs or {}))


def dropout(input, p, train):
    if train and 0.0 < p < 1.0 and input.numel():
        return aten.native_dropout(input, p, train)[0]
    if p == 0.0 or not train or not input.numel():
        return input
    return input * torch.zeros_like(input)


def dropout_(input, p, train):
    if p == 0.0 or not train or not input.numel():
        return input
    if p == 1.0:
        return input.mul_(torch.zeros_like(input))
    # The in-place form is not fused on CUDA either: a noise tensor of the input's type.
    return input.mul_(torch.empty_like(input).bernoulli_(1 - p).div_(1 - p))


def _fuses_rms_norm():
    """Whether CUDA has a fused kernel, which also returns what backward needs."""
    op = getattr(aten, "_fused_rms_norm", None)
    return op is not None and len(op.default._schema.returns) == 2


def rms_norm(input, normalized_shape, weight=None, eps=None):
    if weight is None or weight.dtype == input.dtype:
        return aten._fused_rms_norm(input, normalized_shape, weight, eps)[0]
    # Mixed types are not fused on any device.
    axes = list(range(-len(normalized_shape), 0))
    eps = torch.finfo(input.dtype).eps if eps is None else eps
    wide = input.float() if input.dtype in (torch.float16, torch.bfloat16) else input
    scale = torch.rsqrt(wide.pow(2).mean(axes, keepdim=True).add_(eps))
    return ((wide * scale).type_as(input) * weight).type_as(input)


def _additive(mask, dtype):
    if mask is None or mask.dtype != torch.bool:
        return mask
    return torch.where(mask, 0.0, torch.scalar_tensor(float("-inf"), dtype=dtype, device=mask.device))


def _pad_to_8(tensor):
    missing = -tensor.size(-1) % 8
    return F.pad(tensor, (0, missing)) if missing else tensor


def _aligned(mask):
    """The efficient kernel reads a mask in steps of 8 elements."""
    if mask.stride(-1) == 1 and all(stride % 8 == 0 for stride in mask.stride()[:-1]):
        return mask
    last = mask.size(-1)
    return F.pad(mask, (0, 8 - last % 8))[..., :last]
