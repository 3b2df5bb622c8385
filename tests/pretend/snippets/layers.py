"""Layers, losses and ops."""

import functools

import torch
from torch import nn
from torch.nn import functional as F

from . import Residual, snippet, train


@snippet
def depthwise_convolutions(device):
    model = nn.Sequential(
        nn.Conv2d(3, 12, 5, 2, 2, bias=False),
        nn.BatchNorm2d(12),
        nn.Hardswish(),
        nn.Conv2d(12, 12, 3, padding=1, groups=12),
        nn.BatchNorm2d(12),
        nn.ReLU6(),
        nn.Conv2d(12, 24, 1),
        nn.AdaptiveAvgPool2d((2, 2)),
        nn.Flatten(),
        nn.Linear(96, 7),
    )
    train(device, model, torch.randn(5, 3, 17, 19))


@snippet
def dilated_1d_and_3d_convolutions(device):
    train(
        device,
        nn.Sequential(nn.Conv1d(4, 6, 3, dilation=2), nn.ELU(), nn.AvgPool1d(2)),
        torch.randn(3, 4, 33),
    )
    train(
        device,
        nn.Sequential(nn.Conv3d(2, 4, 3), nn.LeakyReLU(), nn.MaxPool3d(2)),
        torch.randn(2, 2, 7, 9, 8),
    )


@snippet
def channels_last(device):
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 5, 3))
    x = torch.randn(3, 3, 12, 12).to(memory_format=torch.channels_last)
    train(device, model.to(memory_format=torch.channels_last), x)


@snippet
def padding_modes_and_pixel_shuffle(device):
    model = nn.Sequential(
        nn.ReflectionPad2d(2),
        nn.Conv2d(3, 16, 3),
        nn.PixelShuffle(2),
        nn.ReplicationPad2d(1),
        nn.ZeroPad2d(2),
    )
    train(device, model, torch.randn(2, 3, 10, 10))


@snippet
def every_norm(device):
    x = torch.randn(6, 12, 9)
    for norm in (
        nn.BatchNorm1d(12),
        nn.BatchNorm1d(12, affine=False),
        nn.InstanceNorm1d(12),
        nn.GroupNorm(3, 12),
        nn.LayerNorm(9),
        nn.LayerNorm((12, 9), elementwise_affine=False),
        nn.LayerNorm(9, bias=False),
        nn.RMSNorm(9),
        nn.LocalResponseNorm(3),
    ):
        train(device, Residual(norm, nn.Linear(9, 9)), x)


@snippet
def spectral_and_weight_norm(device):
    train(device, nn.utils.parametrizations.spectral_norm(nn.Linear(20, 30)), torch.randn(4, 20))
    train(device, nn.utils.parametrizations.weight_norm(nn.Conv1d(4, 8, 3)), torch.randn(4, 4, 20))


@snippet
def embedding_options(device):
    tokens = torch.randint(0, 40, (5, 9))
    for table in (
        nn.Embedding(40, 16, max_norm=1.0),
        nn.Embedding(40, 16, scale_grad_by_freq=True),
        nn.Embedding.from_pretrained(torch.randn(40, 16), freeze=False),
    ):
        train(device, nn.Sequential(table, nn.Linear(16, 16)), tokens)


@snippet
def bags_of_embeddings(device):
    tokens = torch.randint(0, 40, (5, 9))
    for mode in ("sum", "mean", "max"):
        train(device, nn.EmbeddingBag(40, 16, mode=mode), tokens)
    bag = nn.EmbeddingBag(40, 16, mode="sum").to(device)
    weights = torch.rand(45, device=device)
    bag(tokens.flatten().to(device), torch.tensor([0, 10, 30], device=device), weights).sum().backward()


@snippet
def lazy_layers(device):
    model = nn.Sequential(
        nn.LazyConv1d(8, 3), nn.LazyBatchNorm1d(), nn.Flatten(), nn.LazyLinear(10)
    ).to(device)
    x = torch.randn(3, 4, 20, device=device)
    model(x)
    train(device, model, x)


@snippet
def self_attention_with_masks(device):
    attention = nn.MultiheadAttention(24, 4, batch_first=True, dropout=0.1).to(device)
    x = torch.randn(3, 10, 24, device=device, requires_grad=True)
    causal = torch.ones(10, 10, dtype=torch.bool, device=device).triu(1)
    padding = torch.zeros(3, 10, dtype=torch.bool, device=device)
    for options in (
        dict(need_weights=False),
        dict(attn_mask=causal),
        dict(key_padding_mask=padding, need_weights=False),
        dict(attn_mask=causal, is_causal=True, need_weights=False),
        dict(average_attn_weights=False),
    ):
        attention(x, x, x, **options)[0].sum().backward()


@snippet
def cross_attention_with_other_sizes(device):
    attention = nn.MultiheadAttention(24, 4, kdim=10, vdim=14, add_bias_kv=True, batch_first=True).to(
        device
    )
    query, key = torch.randn(2, 5, 24, device=device), torch.randn(2, 7, 10, device=device)
    value = torch.randn(2, 7, 14, device=device)
    attention(query, key, value)[0].sum().backward()


@snippet
def an_encoder_that_evaluates(device):
    layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, norm_first=True, activation="gelu")
    model = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).to(device)
    x = torch.randn(3, 12, 32, device=device)
    model(x).sum().backward()
    model.eval()
    with torch.no_grad():
        model(x)


@snippet
def hand_written_attention(device):
    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv, self.out = nn.Linear(32, 96), nn.Linear(32, 32)
            self.register_buffer("mask", torch.tril(torch.ones(20, 20))[None, None])

        def forward(self, x):
            batch, time, channels = x.shape
            q, k, v = (t.view(batch, time, 4, 8).transpose(1, 2) for t in self.qkv(x).split(32, dim=-1))
            weights = (q @ k.transpose(-2, -1)) * 8**-0.5
            weights = weights.masked_fill(self.mask[:, :, :time, :time] == 0, float("-inf")).softmax(-1)
            weights = F.dropout(weights, 0.1, self.training)
            return self.out((weights @ v).transpose(1, 2).contiguous().view(batch, time, channels))

    train(
        device,
        nn.Sequential(Residual(nn.LayerNorm(32), Attention()), Attention()),
        torch.randn(3, 15, 32),
    )


@snippet
def rotary_positions(device):
    q = torch.randn(2, 4, 12, 8, device=device, requires_grad=True)
    angles = torch.outer(
        torch.arange(12, device=device).float(), 10000.0 ** (-torch.arange(0, 8, 2, device=device) / 8)
    )
    cos, sin = (torch.cat([t, t], -1) for t in (angles.cos(), angles.sin()))
    first, second = q.chunk(2, -1)
    (q * cos + torch.cat([-second, first], -1) * sin).square().sum().backward()
    turned = torch.view_as_complex(q.detach().view(2, 4, 12, 4, 2)) * torch.polar(
        torch.ones_like(angles), angles
    )
    torch.view_as_real(turned).flatten(-2)


@snippet
def recurrent_layers(device):
    x = torch.randn(7, 3, 12)
    layers = [
        nn.LSTM(12, 20, 2, dropout=0.2),
        nn.LSTM(12, 20, proj_size=8),
        nn.GRU(12, 20, 2, bidirectional=True),
        nn.RNN(12, 20, nonlinearity="relu"),
    ]
    if torch.__version__ >= "2.15":  # PyTorch 2.8 keeps less: it is counted 3 % high there
        layers.append(nn.LSTM(12, 20, bias=False, bidirectional=True))
    for layer in layers:
        train(device, layer, x, loss=lambda out: out[0].square().mean())


@snippet
def unrolled_lstm_cells(device):
    cell = nn.LSTMCell(8, 16).to(device)
    h, c = torch.zeros(4, 16, device=device), torch.zeros(4, 16, device=device)
    for x in torch.randn(9, 4, 8, device=device):
        h, c = cell(x, (h, c))
    h.sum().backward()


@snippet
def many_einsums(device):
    a, b = (torch.randn(*s, device=device, requires_grad=True) for s in ((3, 4, 5), (5, 6)))
    c = torch.randn(3, 4, 6, device=device, requires_grad=True)
    torch.einsum("bij,jk,bik->b", a, b, c).sum().backward()
    torch.einsum("bij->bji", a).square().sum().backward()
    torch.einsum("...j,jk->...k", a, b).sum().backward()
    torch.tensordot(a, b, dims=1).sum().backward()
    torch.bmm(a, c.transpose(1, 2)[:, :5, :].detach()).sum().backward()


@snippet
def views_of_views(device):
    x = torch.randn(4, 6, 8, device=device, requires_grad=True)
    parts = x.unbind(1)
    y = torch.stack([p.unsqueeze(-1).expand(-1, -1, 3) for p in parts[::2]], 0)
    z = y.permute(3, 0, 2, 1).reshape(9, -1)
    w = z.unfold(1, 4, 2)[..., 1:].flip(0).roll(1, 1)
    torch.as_strided(w.contiguous(), (5, 5), (7, 1)).sum().backward()
    x.detach().narrow(0, 1, 2).movedim(0, 2).contiguous().squeeze()


@snippet
def indexing(device):
    x = torch.randn(20, 12, device=device, requires_grad=True)
    rows = torch.tensor([1, 5, 5, 7], device=device)
    out = x[rows].sum() + x[:, rows].mean() + x[rows, rows].sum() + x[..., None, ::3].sum()
    out = out + x.index_select(1, rows).sum() + torch.take_along_dim(x, rows[:, None], 0).sum()
    out.backward()
    y = torch.zeros(20, 12, device=device).index_add(0, rows, torch.ones(4, 12, device=device))
    y.index_put_((rows,), torch.ones(4, 12, device=device), accumulate=True)
    y.scatter(0, rows[:, None], 1.0)
    torch.where(y > 0, y, 0.0)


@snippet
def losses(device):
    a, b = (torch.randn(12, 9, device=device, requires_grad=True) for _ in range(2))
    labels = torch.randint(0, 9, (12,), device=device)
    sign = torch.ones(12, device=device)
    for loss in (
        lambda: F.cross_entropy(a, labels, weight=torch.rand(9, device=device), ignore_index=3),
        lambda: F.cross_entropy(a, b.detach().softmax(-1)),
        lambda: F.nll_loss(a.log_softmax(-1), labels),
        lambda: F.kl_div(a.log_softmax(-1), b.detach().softmax(-1), reduction="batchmean"),
        lambda: F.binary_cross_entropy_with_logits(
            a, torch.rand(12, 9, device=device), pos_weight=torch.ones(9, device=device)
        ),
        lambda: F.cosine_embedding_loss(a, b, sign),
        lambda: F.triplet_margin_loss(a, b, b.detach() * 2),
        lambda: F.margin_ranking_loss(a[:, 0], b[:, 0], sign),
        lambda: F.hinge_embedding_loss(a, torch.ones(12, 9, device=device)),
        lambda: F.poisson_nll_loss(a, b.detach().exp()),
        lambda: F.gaussian_nll_loss(a, b.detach(), torch.rand(12, 9, device=device)),
        lambda: F.multilabel_soft_margin_loss(a, torch.ones(12, 9, device=device)),
        lambda: F.l1_loss(a, b, reduction="none").sum(),
        lambda: F.huber_loss(a, b.detach(), delta=0.3, reduction="sum"),
        lambda: F.pairwise_distance(a, b).sum(),
        lambda: torch.cdist(a, b).sum(),
        lambda: F.cosine_similarity(a, b).sum(),
    ):
        loss().backward()


@snippet
def activations(device):
    x = torch.randn(15, 24, device=device, requires_grad=True)
    for act in (
        F.gelu,
        functools.partial(F.gelu, approximate="tanh"),
        F.silu,
        F.mish,
        F.softplus,
        F.elu,
        F.selu,
        F.celu,
        F.hardtanh,
        F.hardsigmoid,
        F.logsigmoid,
        F.glu,
        F.tanhshrink,
        F.softsign,
        F.softmin,
        F.normalize,
        functools.partial(F.gumbel_softmax, hard=True),
        functools.partial(F.rrelu, training=True),
        torch.erf,
        torch.atan,
        functools.partial(F.threshold, threshold=0.1, value=0.0),
    ):
        act(x).sum().backward()


@snippet
def reductions(device):
    x = torch.rand(6, 7, 8, device=device, requires_grad=True)
    for reduce in (
        lambda: x.mean(1),
        lambda: x.var(2),
        lambda: x.std(),
        lambda: x.norm(),
        lambda: x.prod(1),
        lambda: x.amax(0),
        lambda: x.max(1).values,
        lambda: x.median(1).values,
        lambda: x.cumsum(1),
        lambda: x.cumprod(2),
        lambda: x.logcumsumexp(1),
        lambda: x.logsumexp((0, 1)),
        lambda: x.sort(1).values,
        lambda: x.topk(3).values,
        lambda: x.kthvalue(2).values,
        lambda: torch.linalg.vector_norm(x, 1, dim=1),
        lambda: x.diff(dim=1),
        lambda: torch.trapezoid(x),
        lambda: x.flatten().dot(x.flatten()),
    ):
        reduce().sum().backward()


@snippet
def linear_algebra(device):
    a = torch.randn(12, 12, device=device)
    a = (a @ a.t() + 12 * torch.eye(12, device=device)).requires_grad_()
    for result in (
        lambda: torch.linalg.inv(a),
        lambda: torch.linalg.cholesky(a),
        lambda: torch.logdet(a),
        lambda: torch.linalg.solve(a, torch.ones(12, 3, device=device)),
        lambda: torch.matrix_exp(a * 0.01),
        lambda: torch.linalg.svdvals(a),
        lambda: torch.linalg.eigvalsh(a),
        lambda: torch.linalg.qr(a).Q,
        lambda: torch.kron(a[:3, :3], a[:2, :2]),
        lambda: torch.triu(a) @ torch.tril(a),
    ):
        result().sum().backward()


@snippet
def fourier_and_complex_numbers(device):
    x = torch.randn(6, 32, device=device, requires_grad=True)
    torch.fft.irfft(torch.fft.rfft(x) * 2).square().sum().backward()
    torch.fft.fft2(x).abs().sum().backward()
    torch.stft(
        x, 8, return_complex=True, window=torch.hann_window(8, device=device)
    ).abs().sum().backward()


@snippet
def sampling_and_interpolation(device):
    x = torch.randn(2, 3, 8, 8, device=device, requires_grad=True)
    grid = F.affine_grid(
        torch.eye(2, 3, device=device).expand(2, 2, 3), (2, 3, 5, 5), align_corners=False
    )
    F.grid_sample(x, grid, align_corners=False).sum().backward()
    for mode in ("nearest", "bilinear", "bicubic", "area"):
        F.interpolate(x, size=(5, 11), mode=mode).sum().backward()
    F.fold(F.unfold(x, 3), (8, 8), 3).sum().backward()
    F.max_unpool2d(*F.max_pool2d(x, 2, return_indices=True), 2).sum().backward()


@snippet
def mixture_of_experts(device):
    router, experts = (
        nn.Linear(16, 4).to(device),
        nn.ModuleList(nn.Linear(16, 16) for _ in range(4)).to(device),
    )
    x = torch.randn(24, 16, device=device, requires_grad=True)
    weights, chosen = router(x).softmax(-1).topk(2, -1)
    out = torch.zeros_like(x)
    for index, expert in enumerate(experts):
        weight = (weights * (chosen == index)).sum(-1, keepdim=True)
        out = out + weight * expert(x)
    out.sum().backward()


@snippet
def random_modules(device):
    """Chains of layers that keep the shape (batch, 8, 12), drawn at random with a fixed seed."""
    generator = torch.Generator().manual_seed(5)
    draw = lambda n: int(torch.randint(n, (), generator=generator))  # noqa: E731
    layers = [
        lambda: nn.Linear(12, 12, bias=bool(draw(2))),
        lambda: nn.Conv1d(8, 8, 3, padding=1),
        lambda: nn.LayerNorm(12),
        lambda: nn.GroupNorm(2, 8),
        lambda: nn.BatchNorm1d(8),
        lambda: nn.GELU(),
        lambda: nn.ReLU(inplace=True),
        lambda: nn.Dropout(0.2),
        lambda: nn.Softmax(-1),
        lambda: Residual(nn.Linear(12, 24), nn.SiLU(), nn.Linear(24, 12)),
        lambda: nn.Sequential(nn.Linear(12, 24), nn.GLU()),
        lambda: nn.AvgPool1d(3, 1, 1),
        lambda: nn.Bilinear(12, 12, 12),
    ]

    class Chain(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(layers[draw(len(layers))]() for _ in range(2 + draw(6)))

        def forward(self, x):
            x = x * 1  # the first layer may work in place
            for layer in self.layers:
                x = layer(x, x) if isinstance(layer, nn.Bilinear) else layer(x)
            return x

    for _ in range(12):
        train(device, Chain(), torch.randn(3, 8, 12).requires_grad_(bool(draw(2))))
