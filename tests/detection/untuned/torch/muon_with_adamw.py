"""Muon for the matrices and AdamW for the rest: two optimizers in each step."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


def orthogonalize(G, iterations=5):
    a, b, c = 3.4445, -4.7750, 2.0315
    X = G / (G.norm() + 1e-7)
    X = X.T if G.size(0) > G.size(1) else X
    for _ in range(iterations):
        A = X @ X.T
        X = a * X + (b * A + c * A @ A) @ X
    return X.T if G.size(0) > G.size(1) else X


class Muon(torch.optim.Optimizer):
    def __init__(self, params, lr=0.02, momentum=0.95):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                buffer = self.state[p].setdefault("buffer", torch.zeros_like(p))
                buffer.lerp_(p.grad, 1 - group["momentum"])
                update = orthogonalize(p.grad.lerp(buffer, group["momentum"]))
                p.add_(update, alpha=-group["lr"] * max(1, p.size(0) / p.size(1)) ** 0.5)


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 32)
        self.l1, self.l2, self.l3 = nn.Linear(96, 64), nn.Linear(64, 64), nn.Linear(64, 32)
        self.head = nn.Linear(32, 20)

    def forward(self, context):
        h = F.relu(self.l1(self.embed(context).flatten(1))).square()
        return self.head(F.relu(self.l3(F.relu(self.l2(h)))))


model = LM()
matrices = [model.l1.weight, model.l2.weight, model.l3.weight]
rest = [p for p in model.parameters() if all(p is not m for m in matrices)]
optimizers = [Muon(matrices, lr=0.01), torch.optim.AdamW(rest, lr=3e-3)]
history = []
for step in range(steps):
    start, stride = torch.randint(20, (48, 1)), torch.randint(1, 5, (48, 1))
    tokens = (start + stride * torch.arange(4)) % 20
    tokens[:, 3] = torch.where(torch.rand(48) < 0.1, torch.randint(20, (48,)), tokens[:, 3])
    loss = F.cross_entropy(model(tokens[:, :3]), tokens[:, 3])
    loss.backward()
    for optimizer in optimizers:
        optimizer.step()
    model.zero_grad(set_to_none=True)
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
