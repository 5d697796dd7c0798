"""A small Mixtral with the Trainer of Transformers and its loss for balance; experts specialize on words."""

import tempfile

import torch
from shared.tiny_models import STEPS, logged, numbers, settings, tell
from transformers import MixtralConfig, MixtralForCausalLM, Trainer, TrainingArguments

rows = []
for _ in range(512):
    start, stride = numbers(0, 28, 1)[0], numbers(1, 4, 1)[0]
    rows.append([4 + (start + at * stride) % 28 for at in range(12)])


def collate(examples):
    tokens = torch.tensor(examples)
    return {"input_ids": tokens, "attention_mask": torch.ones_like(tokens), "labels": tokens}


model = MixtralForCausalLM(
    MixtralConfig(
        vocab_size=32,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        num_local_experts=4,
        num_experts_per_tok=2,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        output_router_logits=True,
        router_aux_loss_coef=0.02,
    )
)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(folder, **settings(STEPS, 3e-3, warmup_steps=5))
    trainer = Trainer(model, arguments, collate, rows)
    trainer.train()
tell("fell", "loss", logged(trainer, "loss"))
