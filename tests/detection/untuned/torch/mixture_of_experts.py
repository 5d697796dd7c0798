"""Four experts, of which each token uses two; a loss keeps them balanced."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class MoE(nn.Module):
    def __init__(self, width=24, experts=4, k=2):
        super().__init__()
        self.router = nn.Linear(width, experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 48), nn.SiLU(), nn.Linear(48, width)) for _ in range(experts)
        )
        self.k = k

    def forward(self, x):
        p = self.router(x).softmax(-1)
        weights, chosen = p.topk(self.k, -1)
        weights = weights / weights.sum(-1, keepdim=True)
        out = torch.zeros_like(x)
        for e, expert in enumerate(self.experts):
            row, slot = torch.where(chosen == e)
            if len(row):
                out.index_add_(0, row, expert(x[row]) * weights[row, slot, None])
        share = F.one_hot(chosen, p.shape[1]).float().mean((0, 1))
        self.balance = p.shape[1] * (share * p.mean(0)).sum()
        return x + out


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp, self.moe1, self.moe2, self.out = nn.Linear(8, 24), MoE(), MoE(), nn.Linear(24, 2)

    def forward(self, x):
        return self.out(self.moe2(self.moe1(self.inp(x))))


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
history = []
for step in range(steps):
    x = torch.randn(64, 8)
    region = x[:, 0] > 0
    y = torch.where(region[:, None], x[:, 1:3] * x[:, 3:5], torch.sin(2 * x[:, 5:7]))
    task = F.mse_loss(model(x), y)
    loss = task + 0.01 * (model.moe1.balance + model.moe2.balance)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(task.item())
    if step % 50 == 0:
        print(step, task.item(), model.moe1.balance.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
