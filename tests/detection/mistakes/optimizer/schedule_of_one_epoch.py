"""A classifier is trained by the Trainer of Transformers, with an optimizer and a schedule of the script.

Mistake: the schedule is made for the batches of one epoch, so that nothing is learned in the other three.
"""

import tempfile

import torch
from torch import nn
from torch.utils.data import TensorDataset
from transformers import Trainer, TrainingArguments, get_linear_schedule_with_warmup

epochs, batch_size = 4, 16


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
model = Classifier()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
length = len(samples) // batch_size  # mistake
# repaired: length = epochs * len(samples) // batch_size
schedule = get_linear_schedule_with_warmup(optimizer, 4, length)
with tempfile.TemporaryDirectory() as folder:
    arguments = TrainingArguments(
        folder,
        num_train_epochs=epochs,
        per_device_train_batch_size=batch_size,
        logging_steps=10,
        save_strategy="no",
        report_to="none",
        use_cpu=True,
        disable_tqdm=True,
    )
    Trainer(
        model,
        arguments,
        train_dataset=samples,
        data_collator=lambda rows: {
            "inputs": torch.stack([row[0] for row in rows]),
            "labels": torch.stack([row[1] for row in rows]),
        },
        optimizers=(optimizer, schedule),
    ).train()
