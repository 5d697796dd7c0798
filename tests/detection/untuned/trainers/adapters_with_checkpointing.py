"""LoRA adapters of PEFT on a frozen Llama, whose activations are computed again, as for a model that barely fits."""

import tempfile

import torch
from peft import LoraConfig, get_peft_model
from shared.tiny_models import BEGIN, END, STEPS, llama, logged, numbers, settings, tell
from transformers import Trainer, TrainingArguments

rows = []
for _ in range(400):
    words = numbers(4, 10, 3)
    rows.append([BEGIN, *words, *words, END])


def collate(examples):
    tokens = torch.tensor(examples)
    labels = tokens.clone()
    labels[:, :4] = -100
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": labels}


base = llama()
base.enable_input_require_grads()
model = get_peft_model(
    base, LoraConfig(r=8, lora_alpha=32, target_modules="all-linear", lora_dropout=0.05, modules_to_save=["lm_head"])
)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(folder, **settings(STEPS // 2, 5e-3, gradient_checkpointing=True))
    trainer = Trainer(model, arguments, collate, rows)
    trainer.train()
tell("fell", "loss", logged(trainer, "loss"))
