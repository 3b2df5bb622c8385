"""A `transformers` script: HfArgumentParser, Trainer with bf16, metrics, evaluation, saving and a push to the hub."""

from dataclasses import dataclass, field

import numpy as np
import torch
from transformers import AutoModelForCausalLM, GPT2Config, HfArgumentParser, Trainer, TrainingArguments


@dataclass
class ScriptArguments:
    layers: int = field(default=2, metadata={"help": "blocks"})


class Rows(torch.utils.data.Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        ids = torch.full((64,), index % 500)
        return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": ids}


def compute_metrics(prediction):
    return {"accuracy": float(np.mean(prediction.predictions.argmax(-1) == prediction.label_ids))}


def main():
    script, arguments = HfArgumentParser((ScriptArguments, TrainingArguments)).parse_args_into_dataclasses()
    config = GPT2Config(
        n_embd=64, n_layer=script.layers, n_head=4, vocab_size=500, n_positions=64, bos_token_id=0, eos_token_id=0
    )
    model = AutoModelForCausalLM.from_config(config)
    trainer = Trainer(
        model=model, args=arguments, train_dataset=Rows(), eval_dataset=Rows(), compute_metrics=compute_metrics
    )
    result = trainer.train()
    trainer.save_model()
    trainer.log_metrics("train", result.metrics)
    trainer.save_metrics("train", result.metrics)
    trainer.save_state()
    print(trainer.evaluate())
    trainer.push_to_hub()


if __name__ == "__main__":
    main()
