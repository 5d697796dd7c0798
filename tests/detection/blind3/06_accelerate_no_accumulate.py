"""Accelerate with gradient accumulation and a linear schedule on a small text classifier."""

import math
import sys
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import get_linear_schedule_with_warmup

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
set_seed(0)
ACCUMULATION, EPOCHS = 8, 6


def texts(n, generator):
    y = torch.randint(0, 6, (n,), generator=generator)
    words = torch.randint(0, 120, (n, 20), generator=generator)
    hint = y[:, None] * 10 + torch.randint(0, 10, (n, 20), generator=generator)
    return torch.where(torch.rand(n, 20, generator=generator) < 0.25, hint, words), y


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(120, 32)
        self.gru = nn.GRU(32, 48, batch_first=True)
        self.head = nn.Linear(48, 6)

    def forward(self, tokens):
        return self.head(self.gru(self.embed(tokens))[0].mean(1))


def main():
    accelerator = Accelerator(gradient_accumulation_steps=ACCUMULATION, cpu=True)
    generator = torch.Generator().manual_seed(0)
    loader = DataLoader(TensorDataset(*texts(2048, generator)), batch_size=8, shuffle=True)
    test_x, test_y = texts(1000, generator)
    model = Classifier()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
    updates = EPOCHS * math.ceil(len(loader) / ACCUMULATION)
    schedule = get_linear_schedule_with_warmup(optimizer, updates // 10, updates)
    model, optimizer, loader, schedule = accelerator.prepare(model, optimizer, loader, schedule)
    for epoch in range(EPOCHS):
        model.train()
        total = 0.0
        for tokens, labels in loader:
            with accelerator.accumulate(model) if FIXED else nullcontext():
                loss = F.cross_entropy(model(tokens), labels)
                accelerator.backward(loss)
                optimizer.step()
                schedule.step()
                optimizer.zero_grad()
            total += loss.item()
        accelerator.print(f"epoch {epoch}  loss {total / len(loader):.3f}")
    model.eval()
    with torch.no_grad():
        accuracy = (model(test_x).argmax(-1) == test_y).float().mean().item()
    accelerator.print(f"test accuracy {accuracy:.3f}")


if __name__ == "__main__":
    main()
