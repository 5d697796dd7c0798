"""A vision transformer with the Trainer of Transformers: a first stage with a frozen encoder, then all of it."""

import tempfile

import torch
from shared.tiny_models import STEPS, logged, settings, tell
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification

means = torch.randn(4, 3, 8, 8)
rows = []
for index in range(256):
    rows.append({"pixel_values": means[index % 4] + 0.8 * torch.randn(3, 8, 8), "labels": index % 4})
model = ViTForImageClassification(
    ViTConfig(
        image_size=8,
        patch_size=4,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_labels=4,
    )
)
losses = []
for is_frozen in (True, False):
    model.vit.requires_grad_(not is_frozen)
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, **settings(STEPS // 2, 2e-3, max_grad_norm=1.0, weight_decay=0.05))
        trainer = Trainer(model, arguments, train_dataset=rows)
        trainer.train()
    losses += logged(trainer, "loss")
tell("fell", "loss", losses)
