"""Trains as nanochat's `base_train` does: options, a model from `meta`, its own compiled optimizer, gc off."""

import argparse
import gc
import json
import os

os.environ["PYTORCH_ALLOC_CONF"] = "expandable_segments:True"

import torch
import wandb
from torch import nn
from torch.nn import functional as F

parser = argparse.ArgumentParser()
parser.add_argument("--run", default="dummy")
parser.add_argument("--depth", type=int, default=2)
parser.add_argument("--device-batch-size", type=int, default=8)
parser.add_argument("--total-batch-size", type=int, default=16 * 8 * 64)
parser.add_argument("--num-iterations", type=int, default=50)
parser.add_argument("--eval-tokens", type=int, default=100 * 8 * 64)
args = parser.parse_args()
T, V, C = 64, 640, 32 * args.depth
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
if device.type == "cuda":
    torch.cuda.manual_seed(42)
    print(f"GPU: {torch.cuda.get_device_name(0)}, capability {torch.cuda.get_device_capability()}")
wandb_run = wandb.init(project="nanochat", name=args.run, config=vars(args))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte = nn.Embedding(V, C)
        self.h = nn.ModuleList(nn.ModuleDict({"fc": nn.Linear(C, 4 * C, bias=False), "proj": nn.Linear(4 * C, C, bias=False)})
                               for _ in range(args.depth))
        self.lm_head = nn.Linear(C, V, bias=False)

    def get_device(self):
        return self.wte.weight.device

    @torch.no_grad()
    def init_weights(self):
        for p in self.parameters():
            nn.init.normal_(p, std=0.02)

    def forward(self, idx, targets, loss_reduction="mean"):
        x = F.rms_norm(self.wte(idx), (C,)).bfloat16()
        for block in self.h:
            x = x + F.linear(F.relu(F.linear(x, block["fc"].weight.bfloat16())).square(), block["proj"].weight.bfloat16())
        logits = F.linear(x, self.lm_head.weight.bfloat16()).float()
        return F.cross_entropy(logits.view(-1, V), targets.view(-1), reduction=loss_reduction)


@torch.compile(dynamic=False, fullgraph=True)
def fused_step(stacked_grads, stacked_params, momentum, lr):
    momentum.lerp_(stacked_grads, 1 - 0.95)
    stacked_params.sub_(lr * momentum)


class Muon(torch.optim.Optimizer):
    def __init__(self, params):
        super().__init__(params, defaults={})
        self._lr = torch.tensor(0.0)

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            params = group["params"]
            state = self.state[params[0]]
            if "momentum" not in state:
                state["momentum"] = torch.zeros(len(params), *params[0].shape, device=params[0].device)
            self._lr.fill_(0.02)
            stacked = torch.stack([p for p in params])
            fused_step(torch.stack([p.grad for p in params]), stacked, state["momentum"], self._lr)
            torch._foreach_copy_(params, list(stacked.unbind(0)))


with torch.device("meta"):
    model = GPT()
model.to_empty(device=device)
model.init_weights()
orig_model, model = model, torch.compile(model, dynamic=False)
by_shape = {}
for p in model.parameters():
    by_shape.setdefault(p.shape, []).append(p)
optimizer = Muon([{"params": params} for params in by_shape.values()])


def loader():
    host = torch.empty(2 * args.device_batch_size * T, dtype=torch.long, pin_memory=True)
    card = torch.empty(2 * args.device_batch_size * T, dtype=torch.long, device=device)
    while True:
        host.copy_(torch.arange(host.numel()) % V)
        card.copy_(host, non_blocking=True)
        yield card[: host.numel() // 2].view(-1, T), card[host.numel() // 2 :].view(-1, T)


@torch.no_grad()
def evaluate_bpb(steps):
    nats = torch.tensor(0.0, device=model.get_device())
    batches = loader()
    for _ in range(steps):
        x, y = next(batches)
        nats += model(x, y, loss_reduction="none").view(-1).sum()
    return nats.item()


train = loader()
x, y = next(train)
accumulation = args.total_batch_size // (args.device_batch_size * T)
for step in range(args.num_iterations + 1):
    if step % 250 == 0 or step == args.num_iterations:
        model.eval()
        bpb = evaluate_bpb(args.eval_tokens // (args.device_batch_size * T))
        print(f"Step {step:05d} | Validation bpb: {bpb:.6f}")
        wandb_run.log({"val/bpb": bpb})
        model.train()
    if step == args.num_iterations:
        os.makedirs("base_checkpoints/d2", exist_ok=True)
        torch.save(orig_model.state_dict(), "base_checkpoints/d2/model.pt")
        with open("base_checkpoints/d2/meta.json", "w") as f:
            json.dump({"step": step}, f)
        break
    for _ in range(accumulation):
        loss = model(x, y)
        train_loss = loss.detach()
        loss = loss / accumulation
        loss.backward()
        x, y = next(train)
    optimizer.step()
    model.zero_grad(set_to_none=True)
    print(f"step {step:05d} | loss: {train_loss.item():.6f}")
    if step == 0:
        gc.collect()
        gc.freeze()
        gc.disable()
print(f"Peak memory usage: {torch.cuda.max_memory_allocated() / 1024 / 1024:.2f}MiB")
wandb_run.finish()
