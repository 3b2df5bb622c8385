"""CUDA's autocast for fake CUDA tensors.

PyTorch's autocast kernels ask C++ whether a tensor is on CUDA, and for our tensors C++ answers
`meta` (`device.py`). These kernels do the same with Python's answer: some ops run in the 16-bit
type, some in float32, and some in the widest type of their arguments. The lists are those of
`aten/src/ATen/autocast_mode.h`; an op that the installed PyTorch does not list is left out, and
the tests compare every listed op with PyTorch's kernel on fake CUDA tensors.
"""

import torch

from .device import is_cuda

HALF = """
_convolution _convolution.deprecated conv1d conv2d conv3d conv_tbc conv_transpose1d
conv_transpose2d.input conv_transpose3d.input convolution cudnn_convolution
cudnn_convolution_transpose prelu addmm addmv addr matmul einsum mm mv linalg_vecdot linear addbmm
baddbmm bmm chain_matmul linalg_multi_dot _thnn_fused_lstm_cell _thnn_fused_gru_cell lstm_cell
gru_cell rnn_tanh_cell rnn_relu_cell _scaled_dot_product_flash_attention
scaled_dot_product_attention
""".split()

FLOAT = """
acos asin cosh erfinv exp expm1 log log10 log2 log1p reciprocal rsqrt sinh tan pow.Tensor_Scalar
pow.Tensor_Tensor pow.Scalar softplus layer_norm native_layer_norm group_norm rms_norm
frobenius_norm.dim nuclear_norm nuclear_norm.dim cosine_similarity poisson_nll_loss
cosine_embedding_loss nll_loss nll_loss2d hinge_embedding_loss kl_div l1_loss smooth_l1_loss
huber_loss mse_loss margin_ranking_loss multilabel_margin_loss soft_margin_loss
triplet_margin_loss multi_margin_loss binary_cross_entropy_with_logits dist pdist cdist renorm
logsumexp upsample_nearest1d _upsample_nearest_exact1d upsample_nearest2d
_upsample_nearest_exact2d upsample_nearest3d _upsample_nearest_exact3d upsample_linear1d
upsample_bilinear2d _upsample_bilinear2d_aa upsample_trilinear3d upsample_bicubic2d
_upsample_bicubic2d_aa linalg_matrix_sqrth
""".split()

# Float32 unless the caller passes a type: `cross_entropy` passes the type of its logits.
FLOAT_BY_DTYPE = """
prod prod.dim_int softmax.int log_softmax.int cumprod cumsum linalg_vector_norm
linalg_matrix_norm linalg_matrix_norm.str_ord sum sum.dim_IntList
""".split()

WIDEST = """
addcdiv addcmul atan2 bilinear cross dot vdot grid_sampler index_put tensordot scatter_add
""".split()

# Called without a type, these are replaced by the overload that has one.
NORMS = {"norm.Scalar": "ScalarOpt_dtype", "norm.ScalarOpt_dim": "ScalarOpt_dim_dtype"}

_KEY = "AutocastCUDA"


class Autocast:
    """The kernels, and the 16-bit copies of weights, which live until the outermost context ends."""

    def __init__(self):
        self.copies = {}

    def register(self, library):
        """Registers a kernel for every op that the installed PyTorch autocasts."""
        for names, policy in (
            (HALF, self._half), (FLOAT, self._float), (FLOAT_BY_DTYPE, self._by_dtype),
            (WIDEST, self._widest), (NORMS, self._norm),
        ):  # fmt: skip
            for name in names:
                if _has_original(name):
                    library.impl(name, policy(_overload(name)), _KEY)

    def forget(self):
        self.copies.clear()

    def cast(self, value, dtype):
        """`value` with every eligible tensor in `dtype`."""
        if isinstance(value, (list, tuple)):
            return type(value)(self.cast(item, dtype) for item in value)
        if not _is_eligible(value) or value.dtype == dtype:
            return value
        is_weight = (
            dtype == torch.get_autocast_dtype("cuda")
            and value.dtype == torch.float32
            and value.requires_grad
            and value.is_leaf
            and not value._is_view()
            and torch.is_autocast_cache_enabled()
        )
        if not is_weight:
            return value.to(dtype)
        if id(value) not in self.copies:
            self.copies[id(value)] = (value, value.to(dtype))  # holds `value`: its id must not be reused
        return self.copies[id(value)][1]

    def _cast_all(self, op, args, kwargs, dtype):
        kwargs = {k: self.cast(v, dtype) for k, v in kwargs.items()}
        args = [self.cast(a, dtype) for a in reversed(args)]  # C++ evaluates arguments from the right
        return op(*reversed(args), **kwargs)

    def _half(self, op):
        def kernel(*args, **kwargs):
            with _excluded():
                return self._cast_all(op, args, kwargs, torch.get_autocast_dtype("cuda"))

        return kernel

    def _float(self, op):
        def kernel(*args, **kwargs):
            with _excluded():
                return self._cast_all(op, args, kwargs, torch.float32)

        return kernel

    def _by_dtype(self, op):
        def kernel(*args, **kwargs):
            named = dict(zip((a.name for a in op._schema.arguments), args), **kwargs)
            with _excluded():
                if named.get("dtype") is None and _is_eligible(args[0]):
                    named["dtype"] = torch.float32
                return _call(op, named)

        return kernel

    def _widest(self, op):
        def kernel(*args, **kwargs):
            with _excluded():
                dtypes = {t.dtype for t in _tensors((args, kwargs)) if _is_eligible(t)}
                half = torch.get_autocast_dtype("cuda")
                dtype = torch.float32 if torch.float32 in dtypes else half
                return self._cast_all(op, args, kwargs, dtype)

        return kernel

    def _norm(self, op):
        name = op._schema.name.removeprefix("aten::")
        typed = getattr(getattr(torch.ops.aten, name), NORMS[f"{name}.{op._overloadname}"])

        def kernel(*args, **kwargs):
            named = dict(zip((a.name for a in op._schema.arguments), args), **kwargs)
            with _excluded():
                if not _is_eligible(args[0]):
                    return _call(op, named)
                defaults = {a.name: a.default_value for a in op._schema.arguments}
                return _call(typed, {**defaults, **named, "dtype": torch.float32})

        return kernel


def _is_eligible(value):
    return is_cuda(value) and value.is_floating_point() and value.dtype != torch.float64


def _tensors(tree):
    return [t for t in torch.utils._pytree.tree_leaves(tree) if isinstance(t, torch.Tensor)]


def _call(op, named):
    schema = op._schema.arguments
    positional = [named[a.name] for a in schema if a.name in named and not a.kwarg_only]
    return op(*positional, **{a.name: named[a.name] for a in schema if a.name in named and a.kwarg_only})


def _excluded():
    return torch._C._ExcludeDispatchKeyGuard(
        torch._C.DispatchKeySet(torch._C.DispatchKey.AutocastCUDA)
    )


def _overload(name):
    name, _, overload = name.partition(".")
    return getattr(getattr(torch.ops.aten, name), overload or "default")


def _has_original(name):
    try:
        return torch._C._dispatch_has_kernel_for_dispatch_key(f"aten::{name}", _KEY)
    except RuntimeError:  # no such op in this PyTorch
        return False
