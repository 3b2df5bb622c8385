"""TRL's SFTTrainer with LoRA on a small Qwen model. `scripts/test-sft` runs it: TRL is not in the tests' environment."""

import argparse

from datasets import Dataset
from peft import LoraConfig
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM
from trl import SFTConfig, SFTTrainer

parser = argparse.ArgumentParser()
parser.add_argument("--per_device_train_batch_size", type=int, default=4)
parser.add_argument("--gradient_accumulation_steps", type=int, default=4)
args = parser.parse_args()
words = {word: index for index, word in enumerate(["<eos>", "<unk>", *(f"w{i}" for i in range(400))])}
inner = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
inner.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<eos>", pad_token="<eos>", unk_token="<unk>")
config = Qwen2Config(
    hidden_size=64, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2, intermediate_size=128,
    vocab_size=len(words), max_position_embeddings=128, bos_token_id=0, eos_token_id=0,
)  # fmt: skip
data = Dataset.from_dict({"text": [" ".join(f"w{(i * j) % 400}" for j in range(60)) for i in range(200)]})
trainer = SFTTrainer(
    model=Qwen2ForCausalLM(config), train_dataset=data, eval_dataset=data.select(range(16)), processing_class=tokenizer,
    args=SFTConfig(
        output_dir="out", bf16=True, max_length=64, per_device_train_batch_size=args.per_device_train_batch_size,
        gradient_accumulation_steps=args.gradient_accumulation_steps, gradient_checkpointing=True, eval_strategy="epoch",
        report_to="wandb", push_to_hub=True,
    ),
    peft_config=LoraConfig(r=8, lora_alpha=16, target_modules="all-linear", task_type="CAUSAL_LM"),
)  # fmt: skip
trainer.train()
trainer.save_model()
trainer.push_to_hub()
