"""Hooks, views, checkpointing, custom autograd functions, optimizers and training loops."""

import functools

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint, checkpoint_sequential

from . import Residual, snippet, train


@snippet
def truncated_backpropagation(device):
    gru = nn.GRU(8, 16, batch_first=True).to(device)
    state = None
    for x in torch.randn(4, 3, 5, 8, device=device):
        out, state = gru(x, state)
        out.mean().backward()
        state = state.detach()


@snippet
def in_place_in_a_graph(device):
    x = torch.randn(30, 40, device=device, requires_grad=True)
    h = x * 2
    h.add_(1).mul_(0.5).sigmoid_()
    h = h + 1
    h[:, :10] = 0
    h[3].copy_(torch.ones(40, device=device))
    h.masked_fill_(h > 1.5, 0.0)
    h.sum().backward()
    with torch.no_grad():
        x -= 0.1 * x.grad
        x.grad.zero_()


@snippet
def checkpointed_parts(device):
    layers = [
        Residual(nn.Linear(30, 60), nn.GELU(), nn.Dropout(0.1), nn.Linear(60, 30)) for _ in range(4)
    ]
    model = nn.Sequential(*layers).to(device)
    x = torch.randn(16, 30, device=device, requires_grad=True)
    checkpoint_sequential(model, 2, x, use_reentrant=False).sum().backward()
    for reentrant in (False, True):
        checkpoint(model, x, use_reentrant=reentrant, preserve_rng_state=False).sum().backward()
    # One checkpoint inside another.
    inner = lambda h: checkpoint(model[1], model[0](h), use_reentrant=False)  # noqa: E731
    checkpoint(inner, x, use_reentrant=False).sum().backward()


@snippet
def selective_checkpointing(device):
    from torch.utils.checkpoint import create_selective_checkpoint_contexts

    keep = [torch.ops.aten.mm.default, torch.ops.aten.addmm.default]
    context = functools.partial(create_selective_checkpoint_contexts, keep)
    model = nn.Sequential(nn.Linear(30, 60), nn.GELU(), nn.Linear(60, 30)).to(device)
    x = torch.randn(16, 30, device=device, requires_grad=True)
    checkpoint(model, x, use_reentrant=False, context_fn=context).sum().backward()


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, scale):
        ctx.save_for_backward(x)
        ctx.scale = scale
        return scale * x**3

    @staticmethod
    def backward(ctx, d_out):
        (x,) = ctx.saved_tensors
        return 3 * ctx.scale * x**2 * d_out, None


class InPlaceScale(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        ctx.mark_dirty(x)
        return x.mul_(factor)

    @staticmethod
    def backward(ctx, d_out):
        return d_out * ctx.factor, None


class TwoOutputs(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        index = x.argsort(-1)
        ctx.save_for_backward(index)
        ctx.mark_non_differentiable(index)
        ctx.set_materialize_grads(False)
        return x.gather(-1, index), index

    @staticmethod
    def backward(ctx, d_sorted, _):
        (index,) = ctx.saved_tensors
        return torch.zeros_like(d_sorted).scatter(-1, index, d_sorted)


@snippet
def custom_autograd_functions(device):
    x = torch.randn(20, 30, device=device, requires_grad=True)
    Cube.apply(x, 2.0).sum().backward()
    InPlaceScale.apply(x * 1, 3.0).exp().sum().backward()
    TwoOutputs.apply(x)[0][:, :5].sum().backward()


@snippet
def hooks_on_tensors_and_modules(device):
    model = nn.Sequential(nn.Linear(20, 30), nn.ReLU(), nn.Linear(30, 20)).to(device)
    kept = []
    model[0].register_forward_hook(lambda module, args, out: kept.append(out.detach().clone()))
    model[2].register_full_backward_hook(lambda module, d_in, d_out: (d_in[0] * 0.5,))
    model[0].weight.register_hook(lambda grad: grad.clamp(-1, 1))
    h = model[1](model[0](torch.randn(8, 20, device=device)))
    h.retain_grad()
    model[2](h).sum().backward()
    return kept, h


@snippet
def an_optimizer_in_the_backward_pass(device):
    model = nn.Sequential(*(nn.Linear(30, 30) for _ in range(4))).to(device)
    optimizers = {p: torch.optim.AdamW([p], foreach=False) for p in model.parameters()}

    def update(parameter):
        optimizers[parameter].step()
        optimizers[parameter].zero_grad()

    for parameter in model.parameters():
        parameter.register_post_accumulate_grad_hook(update)
    for _ in range(2):
        model(torch.randn(8, 30, device=device)).sum().backward()


@snippet
def saved_tensors_packed(device):
    model = nn.Sequential(nn.Linear(30, 30), nn.Tanh(), nn.Linear(30, 30)).to(device)
    x = torch.randn(16, 30, device=device)
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t.to(torch.bfloat16), lambda t: t.float()):
        loss = model(x).sum()
    loss.backward()


@snippet
def optimizers_fused_and_foreach(device):
    for make in (
        functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9, fused=True),
        functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9, foreach=True, weight_decay=0.1),
        functools.partial(torch.optim.Adam, fused=True, amsgrad=True),
        functools.partial(torch.optim.AdamW, foreach=True, maximize=True),
        functools.partial(torch.optim.AdamW, foreach=False, weight_decay=0.0),
        functools.partial(torch.optim.Adagrad, fused=True),
        functools.partial(torch.optim.RMSprop, centered=True),
        functools.partial(torch.optim.RAdam, decoupled_weight_decay=True, foreach=True),
        functools.partial(torch.optim.NAdam, foreach=True),
        functools.partial(torch.optim.Adamax, foreach=True),
    ):
        model = nn.Sequential(nn.Linear(40, 30), nn.PReLU(), nn.Linear(30, 40, bias=False))
        train(device, model, torch.randn(6, 40), optimizer=make, steps=3)


@snippet
def parameter_groups_and_schedules(device):
    model = nn.Sequential(nn.Linear(40, 30), nn.LayerNorm(30), nn.Linear(30, 5)).to(device)
    groups = [
        {"params": model[0].parameters(), "lr": 0.1},
        {"params": model[2].parameters(), "weight_decay": 0.0},
    ]
    optimizer = torch.optim.AdamW(groups)
    optimizer.add_param_group({"params": model[1].parameters()})
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, 10)
    for _ in range(3):
        model(torch.randn(6, 40, device=device)).logsumexp(-1).mean().backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    state = optimizer.state_dict()
    optimizer.load_state_dict(state)
    optimizer.step()


@snippet
def accumulated_gradients(device):
    model = nn.Sequential(nn.Linear(40, 60), nn.GELU(), nn.Linear(60, 40)).to(device)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)
    for _ in range(2):
        for _ in range(3):
            (
                F.mse_loss(model(torch.randn(7, 40, device=device)), torch.zeros(7, 40, device=device))
                / 3
            ).backward()
        nn.utils.clip_grad_value_(model.parameters(), 0.5)
        nn.utils.clip_grad_norm_(model.parameters(), 1.0, foreach=False)
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)


@snippet
def a_graph_used_twice(device):
    x, w = (torch.randn(25, 25, device=device, requires_grad=True) for _ in range(2))
    h = (x @ w).sigmoid()
    h.sum().backward(retain_graph=True)
    h.square().sum().backward(retain_graph=True)
    torch.autograd.grad(h.sum(), [x, w], allow_unused=True)
    first, second = torch.autograd.grad((x @ w).exp().sum(), [x, w], create_graph=True)
    (first.square().sum() + second.sum()).backward()


@snippet
def a_gradient_penalty(device):
    critic = nn.Sequential(nn.Linear(12, 30), nn.LeakyReLU(0.2), nn.Linear(30, 1)).to(device)
    x = torch.randn(9, 12, device=device, requires_grad=True)
    (slope,) = torch.autograd.grad(critic(x).sum(), x, create_graph=True)
    ((slope.norm(2, dim=1) - 1) ** 2).mean().backward()


@snippet
def tied_and_frozen_parts(device):
    embed, head = nn.Embedding(50, 16).to(device), nn.Linear(16, 50, bias=False).to(device)
    head.weight = embed.weight
    body = (
        nn.Sequential(nn.Linear(16, 16), nn.ReLU(), nn.Linear(16, 16)).to(device).requires_grad_(False)
    )
    adapter = nn.Sequential(nn.Linear(16, 2, bias=False), nn.Linear(2, 16, bias=False)).to(device)
    tokens = torch.randint(0, 50, (4, 6), device=device)
    optimizer = torch.optim.Adam([*embed.parameters(), *adapter.parameters()])
    for _ in range(2):
        h = embed(tokens)
        F.cross_entropy(head(body(h) + adapter(h)).flatten(0, 1), tokens.flatten()).backward()
        optimizer.step()
        optimizer.zero_grad()


@snippet
def teacher_and_student(device):
    teacher, student = (
        nn.Sequential(nn.Linear(20, 40), nn.ReLU(), nn.Linear(40, 6)).to(device) for _ in range(2)
    )
    teacher.eval().requires_grad_(False)
    x = torch.randn(11, 20, device=device)
    with torch.inference_mode():
        target = teacher(x).softmax(-1)
    F.kl_div(student(x).log_softmax(-1), target.clone(), reduction="batchmean").backward()


@snippet
def an_adversarial_pair(device):
    maker, critic = (
        nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 8)).to(device) for _ in range(2)
    )
    first, second = (torch.optim.Adam(m.parameters(), betas=(0.5, 0.9)) for m in (maker, critic))
    for _ in range(2):
        made = maker(torch.randn(6, 8, device=device))
        second.zero_grad()
        (critic(made.detach()).mean() - critic(torch.randn(6, 8, device=device)).mean()).backward()
        second.step()
        first.zero_grad()
        (-critic(made).mean()).backward()
        first.step()


@snippet
def functional_transforms(device):
    model = nn.Sequential(nn.Linear(6, 10), nn.Tanh(), nn.Linear(10, 2)).to(device)
    x = torch.randn(5, 6, device=device)
    torch.func.vmap(torch.func.jacrev(model))(x)
    torch.autograd.functional.jacobian(model, x[0])


@snippet
def a_copied_and_halved_model(device):
    model = nn.Sequential(nn.Linear(30, 40), nn.LayerNorm(40), nn.Linear(40, 30)).to(device)
    x = torch.randn(5, 30, device=device)
    model(x).sum().backward()
    model.double()(x.double())
    model.float()
    state = {name: t.clone() for name, t in model.state_dict().items()}
    model.load_state_dict(state)
    model.load_state_dict(state, assign=True)
    flat = nn.utils.parameters_to_vector(model.parameters())
    nn.utils.vector_to_parameters(flat * 2, model.parameters())


@snippet
def averaged_models(device):
    model = nn.Sequential(nn.Linear(20, 30), nn.BatchNorm1d(30), nn.Linear(30, 4)).to(device)
    average = torch.optim.swa_utils.AveragedModel(
        model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9)
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for _ in range(3):
        model(torch.randn(8, 20, device=device)).sum().backward()
        optimizer.step()
        optimizer.zero_grad()
        average.update_parameters(model)


@snippet
def a_pruned_layer(device):
    from torch.nn.utils import prune

    layer = nn.Linear(30, 20).to(device)
    prune.l1_unstructured(layer, "weight", 0.3)
    layer(torch.randn(4, 30, device=device)).sum().backward()
    prune.remove(layer, "weight")
