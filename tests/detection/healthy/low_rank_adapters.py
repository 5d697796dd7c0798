"""LoRA: a frozen network with pairs of small matrices, of which the second starts at 0."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])


class LoRALinear(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.lora_A = nn.Linear(base.in_features, rank, bias=False)
        self.lora_B = nn.Linear(rank, base.out_features, bias=False)
        nn.init.zeros_(self.lora_B.weight)

    def forward(self, x):
        return self.base(x) + 2.0 * self.lora_B(self.lora_A(x))


model = nn.Sequential(
    LoRALinear(nn.Linear(12, 48)), nn.ReLU(), LoRALinear(nn.Linear(48, 48)), nn.ReLU(), nn.Linear(48, 4)
)
optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-3)
criterion = nn.CrossEntropyLoss()
centres = torch.randn(4, 12)
for step in range(steps):
    y = torch.randint(4, (32,))
    x = centres[y] + torch.randn(32, 12)
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
