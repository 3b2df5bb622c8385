"""Small training runs of many kinds. Each takes a device and trains for a few steps."""

import copy
from contextlib import nullcontext

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint


def steps(model, optimizer, inputs, loss_of, count=2, scaler=None, autocast=None):
    for _ in range(count):
        with autocast or nullcontext():
            loss = loss_of(model(*inputs))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()


def conv_net(device):
    model = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(inplace=True), nn.MaxPool2d(2),
        nn.Conv2d(16, 32, 3, stride=2), nn.GroupNorm(4, 32), nn.SiLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Dropout(0.2), nn.Linear(32, 10),
    ).to(device)  # fmt: skip
    x, y = torch.randn(8, 3, 32, 32, device=device), torch.randint(0, 10, (8,), device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    steps(model, optimizer, (x,), lambda out: F.cross_entropy(out, y))
    model.eval()
    with torch.no_grad():
        model(x)


def unrolled_rnn(device):
    cell, head = nn.GRUCell(16, 32).to(device), nn.Linear(32, 5).to(device)
    optimizer = torch.optim.RMSprop([*cell.parameters(), *head.parameters()], momentum=0.5)
    x = torch.randn(4, 12, 16, device=device)
    for _ in range(2):
        state, outputs = torch.zeros(4, 32, device=device), []
        for t in range(12):
            state = cell(x[:, t], state)
            outputs.append(head(state))
        loss = torch.stack(outputs, 1).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(100, 32, padding_idx=0)
        layer = nn.TransformerEncoderLayer(32, 4, 64, batch_first=True, dropout=0.0)
        self.layers = nn.TransformerEncoder(layer, 2, enable_nested_tensor=False)
        self.head = nn.Linear(32, 100)

    def forward(self, tokens, mask):
        return self.head(self.layers(self.embed(tokens), mask=mask))


def encoder_with_mask(device):
    model = Encoder().to(device)
    tokens = torch.randint(1, 100, (4, 24), device=device)
    mask = torch.full((24, 24), float("-inf"), device=device).triu(1)
    optimizer = torch.optim.Adam(model.parameters(), amsgrad=True)
    loss = lambda out: F.cross_entropy(out.flatten(0, 1), tokens.flatten())  # noqa: E731
    steps(model, optimizer, (tokens, mask), loss)


def adafactor(device):
    model = nn.Sequential(nn.Linear(64, 128), nn.Tanh(), nn.Linear(128, 64)).to(device)
    x = torch.randn(16, 64, device=device)
    optimizer = torch.optim.Adafactor(model.parameters())
    steps(model, optimizer, (x,), lambda out: F.mse_loss(out, x), count=3)


def every_optimizer(device):
    for kind in ("Adadelta", "Adagrad", "Adamax", "ASGD", "NAdam", "RAdam", "Rprop", "AdamW"):
        for foreach in (False, True):
            model = nn.Linear(40, 30).to(device)
            x = torch.randn(7, 40, device=device)
            optimizer = getattr(torch.optim, kind)(model.parameters(), foreach=foreach)
            steps(model, optimizer, (x,), lambda out: out.square().sum(), count=3)


def checkpointed(device, use_reentrant=False):
    blocks = nn.ModuleList(
        nn.Sequential(nn.LayerNorm(64), nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64))
        for _ in range(4)
    ).to(device)
    x = torch.randn(32, 64, device=device, requires_grad=True)
    optimizer = torch.optim.SGD(blocks.parameters(), lr=0.1)
    for _ in range(2):
        h = x
        for block in blocks:
            h = h + checkpoint(block, h, use_reentrant=use_reentrant)
        h.sum().backward()
        optimizer.step()
        optimizer.zero_grad()


def checkpointed_reentrant(device):
    checkpointed(device, use_reentrant=True)


def views_and_in_place(device):
    x = torch.zeros(64, 64, device=device)
    rows = x[:8]
    rows.add_(1)
    y = x.t().contiguous()
    y.mul_(2).clamp_(max=3)
    z = y.view(8, 8, 64).transpose(0, 1)
    flat = z.reshape(-1)
    del y, z
    parts = flat.chunk(4)
    total = torch.cat([parts[0], parts[3]])
    del flat
    total.resize_(10)
    x.set_(torch.ones(3, 3, device=device))
    out = torch.empty(100, 100, device=device)
    torch.add(torch.ones(100, 100, device=device), 1, out=out)
    return parts, total, rows


def retained_graph(device):
    w = torch.randn(50, 50, device=device, requires_grad=True)
    y = (w @ w).relu() @ w
    y.sum().backward(retain_graph=True)
    y.mean().backward()
    (grad,) = torch.autograd.grad((w.exp() * w).sum(), w, create_graph=True)
    grad.square().sum().backward()


def attention_kinds(device):
    q, k, v = (torch.randn(2, 4, 40, 16, device=device, requires_grad=True) for _ in range(3))
    bias = torch.randn(1, 1, 40, 40, device=device)
    keep = torch.ones(40, 40, device=device, dtype=torch.bool).tril()
    for arguments in (dict(), dict(is_causal=True), dict(attn_mask=bias), dict(attn_mask=keep)):
        F.scaled_dot_product_attention(q, k, v, **arguments).sum().backward()
    with torch.no_grad():
        F.scaled_dot_product_attention(q, k, v)


def embeddings_and_indices(device):
    table = nn.Embedding(1000, 24).to(device)
    bag = nn.EmbeddingBag(500, 24, mode="sum").to(device)
    index = torch.randint(0, 500, (6, 30), device=device)
    h = table(index).sum(1) + bag(index)
    top = h.topk(5, dim=1)
    h.gather(1, top.indices).sum().backward()
    h.detach().index_select(0, torch.tensor([0, 2], device=device))
    h.detach().scatter_add_(1, top.indices, top.values.detach())
    h.detach().sort(dim=1)
    h.detach().masked_fill(h.detach() > 0, 0.0)


def frozen_and_shared(device):
    body = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 64)).to(device)
    head = nn.Linear(64, 64, bias=False).to(device)
    head.weight = body[0].weight
    body[2].requires_grad_(False)
    trained = [p for p in {*body.parameters(), *head.parameters()} if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, fused=True)
    x = torch.randn(128, 64, device=device)
    for _ in range(2):
        head(body(x)).logsumexp(-1).mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)


def half_autocast(device):
    model = nn.Sequential(nn.Linear(64, 128), nn.LayerNorm(128), nn.GELU(), nn.Linear(128, 50))
    model.to(device)
    x, y = torch.randn(32, 64, device=device), torch.randint(0, 50, (32,), device=device)
    optimizer = torch.optim.AdamW(model.parameters())
    autocast = torch.autocast(device, dtype=torch.bfloat16)
    steps(model, optimizer, (x,), lambda out: F.cross_entropy(out, y), autocast=autocast)


def pure_bfloat16(device):
    model = nn.Sequential(nn.Linear(64, 128), nn.RMSNorm(128), nn.SiLU(), nn.Linear(128, 64))
    model.to(device, torch.bfloat16)
    x = torch.randn(32, 64, device=device, dtype=torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    steps(model, optimizer, (x,), lambda out: out.float().square().mean())


class SkipNet(nn.Module):
    """A small U-Net: skip connections, transposed convolutions, interpolation."""

    def __init__(self):
        super().__init__()
        self.first, self.norm = nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8)
        self.down, self.group = nn.Conv2d(8, 16, 3, 2, 1), nn.GroupNorm(4, 16)
        self.up, self.head = nn.ConvTranspose2d(16, 8, 2, 2), nn.Conv2d(16, 2, 1)

    def forward(self, x):
        fine = F.relu(self.norm(self.first(x)))
        coarse = F.silu(self.group(self.down(fine)))
        up = F.interpolate(self.up(coarse), size=fine.shape[-2:])
        return self.head(torch.cat([fine, up], 1))


def skip_connections(device):
    model = SkipNet().to(device)
    x, y = torch.randn(3, 3, 21, 21, device=device), torch.randint(0, 2, (3, 21, 21), device=device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    steps(model, optimizer, (x,), lambda out: F.cross_entropy(out, y))


def bidirectional_lstm(device):
    embed, head = nn.Embedding(70, 20).to(device), nn.Linear(60, 70).to(device)
    lstm = nn.LSTM(20, 30, 2, batch_first=True, dropout=0.2, bidirectional=True).to(device)
    parameters = [*embed.parameters(), *lstm.parameters(), *head.parameters()]
    optimizer = torch.optim.Adagrad(parameters)
    tokens = torch.randint(0, 70, (3, 14), device=device)
    for _ in range(2):
        out = head(lstm(embed(tokens))[0])
        F.cross_entropy(out.flatten(0, 1), tokens.flatten()).backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()


def translation_with_dropout(device):
    model = nn.Transformer(24, 3, 2, 2, 50, 0.1, batch_first=True).to(device)
    embed, head = nn.Embedding(60, 24).to(device), nn.Linear(24, 60).to(device)
    parameters = [*model.parameters(), *embed.parameters(), *head.parameters()]
    optimizer = torch.optim.Adam(parameters)
    source, target = (torch.randint(0, 60, (3, n), device=device) for n in (13, 11))
    mask = nn.Transformer.generate_square_subsequent_mask(11).to(device)
    for _ in range(2):
        out = head(model(embed(source), embed(target), tgt_mask=mask))
        F.cross_entropy(out.flatten(0, 1), target.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()


def scaled_accumulation(device):
    model = nn.Sequential(nn.Linear(50, 70), nn.GELU(), nn.Dropout(0.3), nn.Linear(70, 9)).to(device)
    optimizer, scaler = torch.optim.AdamW(model.parameters()), torch.amp.GradScaler(device)
    x, y = torch.randn(11, 50, device=device), torch.randint(0, 9, (11,), device=device)
    for micro in range(4):
        scaler.scale(F.cross_entropy(model(x), y) / 2).backward()
        if micro % 2:
            scaler.unscale_(optimizer)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            optimizer.zero_grad()


def averaged_weights(device):
    model = nn.Sequential(nn.Linear(40, 60), nn.LayerNorm(60), nn.ReLU(), nn.Linear(60, 40)).to(device)
    average = copy.deepcopy(model).requires_grad_(False)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    x = torch.randn(50, 40, device=device)
    for _ in range(2):
        F.mse_loss(model(x), x).backward()
        optimizer.step()
        optimizer.zero_grad()
        weights = [p.detach() for p in model.parameters()]
        torch._foreach_lerp_(list(average.parameters()), weights, 0.1)
    with torch.inference_mode():
        average(x).softmax(-1).topk(3)


def packed_sequences(device):
    lstm, x = nn.LSTM(10, 14, batch_first=True).to(device), torch.randn(3, 6, 10, device=device)
    packed = nn.utils.rnn.pack_padded_sequence(x, torch.tensor([6, 4, 2]), batch_first=True)
    out, _ = nn.utils.rnn.pad_packed_sequence(lstm(packed)[0], batch_first=True)
    out.sum().backward()


def per_sample_gradients(device):
    model = nn.Sequential(nn.Linear(10, 20), nn.Tanh(), nn.Linear(20, 3)).to(device)
    weights = {name: p.detach() for name, p in model.named_parameters()}
    x, y = torch.randn(8, 10, device=device), torch.randint(0, 3, (8,), device=device)

    def loss(weights, x, y):
        out = torch.func.functional_call(model, weights, (x[None],))
        return F.cross_entropy(out, y[None])

    torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0, 0))(weights, x, y)


def policy_gradient(device):
    policy = nn.Sequential(nn.Linear(6, 20), nn.Tanh(), nn.Linear(20, 3)).to(device)
    optimizer = torch.optim.Adam(policy.parameters())
    for _ in range(2):
        choice = torch.distributions.Categorical(logits=policy(torch.randn(12, 6, device=device)))
        gain = choice.log_prob(choice.sample()) * torch.randn(12, device=device)
        (-gain.mean() - 0.01 * choice.entropy().mean()).backward()
        optimizer.step()
        optimizer.zero_grad()


def orthogonal_weights(device):
    model = nn.utils.parametrizations.orthogonal(nn.Linear(30, 30)).to(device)
    model(torch.randn(5, 30, device=device)).sum().backward()


def built_on_meta(device):
    with torch.device("meta"):
        model = nn.Sequential(nn.Linear(20, 30), nn.Linear(30, 2))
    model.to_empty(device=device)(torch.randn(3, 20, device=device)).sum().backward()


def norm_of_transposed(device):
    norm, head = nn.LayerNorm(32).to(device), nn.Linear(32, 32).to(device)
    x = head(torch.randn(6, 20, 32, device=device)).transpose(1, 2).contiguous().transpose(1, 2)
    head(norm(x)).sum().backward()


ALL = [
    packed_sequences, per_sample_gradients, policy_gradient, orthogonal_weights, built_on_meta,
    norm_of_transposed,
    skip_connections, bidirectional_lstm, translation_with_dropout, scaled_accumulation,
    averaged_weights, conv_net, unrolled_rnn, encoder_with_mask, adafactor, every_optimizer, checkpointed,
    checkpointed_reentrant, views_and_in_place, retained_graph, attention_kinds,
    embeddings_and_indices, frozen_and_shared, half_autocast, pure_bfloat16,
]  # fmt: skip
HALF = [half_autocast, pure_bfloat16]
