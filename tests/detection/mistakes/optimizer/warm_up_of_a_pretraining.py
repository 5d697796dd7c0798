"""A classifier is trained by the Trainer of Transformers for 120 steps.

Mistake: the arguments are those of a pretraining, whose warm-up is longer than this training: the learning rate stays
far below what was chosen.
"""

import tempfile

import torch
from torch import nn
from torch.utils.data import TensorDataset
from transformers import Trainer, TrainingArguments

warm_up = 2000  # mistake
# repaired: warm_up = 6


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))

    def forward(self, inputs, labels):
        logits = self.layers(inputs)
        return {"loss": nn.functional.cross_entropy(logits, labels), "logits": logits}


means = torch.randn(4, 16)
labels = torch.randint(4, (480,))
samples = TensorDataset(means[labels] + torch.randn(480, 16), labels)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        max_steps=120,
        learning_rate=2e-3,
        warmup_steps=warm_up,
        lr_scheduler_type="cosine",
        per_device_train_batch_size=16,
        logging_steps=10,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    Trainer(
        Classifier(),
        arguments,
        train_dataset=samples,
        data_collator=lambda rows: {
            "inputs": torch.stack([row[0] for row in rows]),
            "labels": torch.stack([row[1] for row in rows]),
        },
    ).train()
