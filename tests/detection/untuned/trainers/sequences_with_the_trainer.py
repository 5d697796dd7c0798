"""T5 reverses sequences with the Seq2SeqTrainer of Transformers and Adafactor."""

import tempfile

import torch
from shared.tiny_models import STEPS, logged, numbers, settings, tell
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, T5Config, T5ForConditionalGeneration

rows = []
for _ in range(512):
    words = numbers(3, 32, 5)
    rows.append({"input_ids": words, "labels": [*reversed(words), 1]})
model = T5ForConditionalGeneration(
    T5Config(
        vocab_size=32,
        d_model=32,
        d_kv=8,
        d_ff=64,
        num_layers=2,
        num_heads=4,
        decoder_start_token_id=0,
        pad_token_id=0,
        eos_token_id=1,
    )
)


def collate(examples):
    return {name: torch.tensor([example[name] for example in examples]) for name in ("input_ids", "labels")}


with tempfile.TemporaryDirectory() as folder:
    arguments = Seq2SeqTrainingArguments(folder, **settings(STEPS, 5e-3, optim="adafactor", warmup_steps=5))
    trainer = Seq2SeqTrainer(model, arguments, collate, rows)
    trainer.train()
tell("fell", "loss", logged(trainer, "loss"))
