"""Lion: the sign of an interpolated momentum, with decoupled decay and a small rate."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class Lion(torch.optim.Optimizer):
    def __init__(self, params, lr=1e-4, betas=(0.9, 0.99), weight_decay=0.0):
        super().__init__(params, {"lr": lr, "betas": betas, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in filter(lambda p: p.grad is not None, group["params"]):
                m = self.state[p].setdefault("exp_avg", torch.zeros_like(p))
                beta1, beta2 = group["betas"]
                p.mul_(1 - group["lr"] * group["weight_decay"])
                p.add_((m * beta1 + p.grad * (1 - beta1)).sign_(), alpha=-group["lr"])
                m.mul_(beta2).add_(p.grad, alpha=1 - beta2)


model = nn.Sequential(
    nn.Conv1d(4, 24, 5, padding=2),
    nn.ReLU(),
    nn.Conv1d(24, 24, 5, padding=2),
    nn.ReLU(),
    nn.AdaptiveMaxPool1d(1),
    nn.Flatten(),
    nn.Linear(24, 3),
)
optimizer = Lion(model.parameters(), lr=1e-3, weight_decay=0.1)
motifs = torch.randint(4, (3, 7))
history = []
for step in range(steps):
    y = torch.randint(3, (32,))
    sequence = torch.randint(4, (32, 40))
    at = torch.randint(33, (32,))
    for row in range(32):
        sequence[row, at[row] : at[row] + 7] = motifs[y[row]]
    x = nn.functional.one_hot(sequence, 4).float().transpose(1, 2)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
