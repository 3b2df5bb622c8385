"""A recipe in torchtune's manner: a class with `setup`, `train` and `save_checkpoint`, checkpointed blocks, FSDP-ready."""

import os
from functools import partial

import torch
from torch import nn
from torch.distributed import destroy_process_group, init_process_group
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.checkpoint import checkpoint
from torch.utils.data import DataLoader, DistributedSampler


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.RMSNorm(width)
        self.w1, self.w2, self.w3 = (nn.Linear(width, 4 * width, bias=False) for _ in range(3))
        self.down = nn.Linear(4 * width, width, bias=False)

    def forward(self, x):
        return x + self.down(F.silu(self.w1(self.norm(x))) * self.w2(x) + self.w3(x))


class Decoder(nn.Module):
    def __init__(self, width=64, layers=3, vocab=800):
        super().__init__()
        self.tok_embeddings = nn.Embedding(vocab, width)
        self.layers = nn.ModuleList(Layer(width) for _ in range(layers))
        self.output = nn.Linear(width, vocab, bias=False)

    def forward(self, tokens):
        x = self.tok_embeddings(tokens)
        for layer in self.layers:
            x = checkpoint(layer, x, use_reentrant=False)
        return self.output(x)


class Samples(torch.utils.data.Dataset):
    def __len__(self):
        return 256

    def __getitem__(self, index):
        return {"tokens": list(range(index % 7, index % 7 + 48))}


def collate(rows):
    tokens = torch.tensor([row["tokens"] for row in rows])
    return {"tokens": tokens, "labels": tokens.roll(-1, 1)}


class FullFinetuneRecipe:
    def __init__(self):
        self.device = torch.device("cuda", int(os.environ.get("LOCAL_RANK", 0)))
        self.world = int(os.environ.get("WORLD_SIZE", 1))
        self.epochs, self.accumulation = 3, 2
        if torch.cuda.get_device_properties(0).total_memory < 1 << 30:
            raise RuntimeError("too little memory on the card")

    def setup(self):
        with torch.device("meta"):
            model = Decoder().to(torch.bfloat16)
        model.to_empty(device=self.device)
        for p in model.parameters():
            nn.init.normal_(p, std=0.02)
        if self.world > 1:
            model = DistributedDataParallel(model, device_ids=[self.device.index])
        self.model = model
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5, foreach=True)
        self.loss = nn.CrossEntropyLoss(ignore_index=-100)
        data = Samples()
        sampler = DistributedSampler(data, self.world, 0)
        self.loader = DataLoader(data, batch_size=8, sampler=sampler, collate_fn=partial(collate), num_workers=1)

    def train(self):
        self.optimizer.zero_grad()
        for epoch in range(self.epochs):
            self.loader.sampler.set_epoch(epoch)
            for index, batch in enumerate(self.loader):
                batch = {name: tensor.to(self.device) for name, tensor in batch.items()}
                labels = batch.pop("labels")
                logits = self.model(**batch)
                loss = self.loss(logits.flatten(0, 1).float(), labels.flatten()) / self.accumulation
                del logits
                loss.backward()
                if (index + 1) % self.accumulation == 0:
                    self.optimizer.step()
                    self.optimizer.zero_grad(set_to_none=True)
                    print(f"{epoch}|{index}|loss: {loss.item() * self.accumulation:.4f}")
            self.save_checkpoint(epoch)

    def save_checkpoint(self, epoch):
        os.makedirs("output", exist_ok=True)
        torch.save(self.model.state_dict(), f"output/model_{epoch}.pt")
        with open("output/recipe_state.txt", "w") as f:
            f.write(str(epoch))
        assert os.listdir("output"), "the checkpoint is gone"


if __name__ == "__main__":
    if "RANK" in os.environ:
        init_process_group("nccl")
    recipe = FullFinetuneRecipe()
    recipe.setup()
    recipe.train()
    if torch.distributed.is_initialized():
        destroy_process_group()
