"""A loop with `accelerate`: workers, accumulation, gathered metrics, trackers, saved states."""

import argparse

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

parser = argparse.ArgumentParser()
parser.add_argument("--per_device_train_batch_size", type=int, default=16)
parser.add_argument("--gradient_accumulation_steps", type=int, default=4)
parser.add_argument("--num_epochs", type=int, default=3)
parser.add_argument("--output_dir", default="out")
args = parser.parse_args()
accelerator = Accelerator(
    mixed_precision="bf16", gradient_accumulation_steps=args.gradient_accumulation_steps, log_with=None,
    project_dir=args.output_dir,
)  # fmt: skip
config = BertConfig(
    hidden_size=64, num_hidden_layers=2, num_attention_heads=4, intermediate_size=128, vocab_size=1000
)
model = BertForSequenceClassification(config)
rows = TensorDataset(torch.randint(0, 1000, (2048, 32)), torch.randint(0, 2, (2048,)))
train = DataLoader(rows, batch_size=args.per_device_train_batch_size, shuffle=True, num_workers=2, persistent_workers=True)
test = DataLoader(rows, batch_size=32, num_workers=2)
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
scheduler = get_linear_schedule_with_warmup(optimizer, 10, 1000)
model, optimizer, train, test, scheduler = accelerator.prepare(model, optimizer, train, test, scheduler)
accelerator.init_trackers("example", config=vars(args))
for epoch in range(args.num_epochs):
    model.train()
    for ids, labels in train:
        with accelerator.accumulate(model):
            loss = model(input_ids=ids, labels=labels).loss
            accelerator.backward(loss)
            if accelerator.sync_gradients:
                accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
    model.eval()
    correct = total = 0
    for ids, labels in test:
        with torch.no_grad():
            logits = model(input_ids=ids).logits
        predictions, references = accelerator.gather_for_metrics((logits.argmax(-1), labels))
        correct += (predictions == references).sum().item()
        total += len(references)
    accelerator.print(f"epoch {epoch}: {correct / total:.3f}")
    accelerator.save_state(f"{args.output_dir}/epoch_{epoch}")
accelerator.unwrap_model(model).save_pretrained(f"{args.output_dir}/final")
accelerator.end_training()
