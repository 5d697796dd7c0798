"""A network is trained on one task, frozen, and adapted to another by pairs of small matrices in all its layers."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class LoRA(nn.Module):
    def __init__(self, base, rank=4, alpha=8):
        super().__init__()
        self.base = base
        self.lora_A = nn.Parameter(torch.empty(rank, base.in_features))
        self.lora_B = nn.Parameter(torch.zeros(base.out_features, rank))
        nn.init.kaiming_uniform_(self.lora_A, a=5**0.5)
        self.scaling = alpha / rank

    def forward(self, x):
        return self.base(x) + (x @ self.lora_A.T @ self.lora_B.T) * self.scaling


model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 6))
first_task, second_task = torch.randn(6, 16) * 1.2, torch.randn(6, 16) * 1.2
criterion = nn.CrossEntropyLoss()


def fit(optimizer, centres, count):
    history = []
    for _ in range(count):
        y = torch.randint(6, (32,))
        x = centres[y] + torch.randn(32, 16)
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    return history


fit(torch.optim.Adam(model.parameters(), lr=2e-3), first_task, steps // 2)
model.requires_grad_(False)
for k in (0, 2, 4):
    model[k] = LoRA(model[k])
trainable = [p for p in model.parameters() if p.requires_grad]
print(sum(p.numel() for p in trainable), "trainable parameters")
history = fit(torch.optim.AdamW(trainable, lr=5e-3), second_task, steps)
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
