"""BERT classifies sentences with the Trainer of Transformers, which evaluates and keeps the best model."""

import tempfile

import torch
from shared.tiny_models import STEPS, logged, numbers, settings, tell
from transformers import BertConfig, BertForSequenceClassification, Trainer, TrainingArguments

rows = []
for _ in range(640):
    words = [1, *numbers(4, 32, 10), 2]
    rows.append({"input_ids": words, "attention_mask": [1] * 12, "labels": int(words[1] >= 18)})
model = BertForSequenceClassification(
    BertConfig(
        vocab_size=32,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        max_position_embeddings=16,
    )
)


def accuracy(predicted):
    return {"accuracy": float((predicted.predictions.argmax(-1) == predicted.label_ids).mean())}


with tempfile.TemporaryDirectory() as folder:
    every = {"eval_strategy": "steps", "eval_steps": max(STEPS // 5, 1), "save_steps": max(STEPS // 5, 1)}
    arguments = TrainingArguments(
        folder,
        **settings(STEPS, 2e-3, lr_scheduler_type="linear", warmup_steps=10)
        | {"save_strategy": "steps", "load_best_model_at_end": True, "save_total_limit": 1}
        | every,
    )
    trainer = Trainer(model, arguments, train_dataset=rows[:512], eval_dataset=rows[512:], compute_metrics=accuracy)
    trainer.train()
print(torch.tensor(logged(trainer, "eval_accuracy")))
tell("fell", "loss", logged(trainer, "loss"))
