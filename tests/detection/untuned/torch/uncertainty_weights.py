"""Two tasks whose weights are learned from their uncertainty: the total becomes negative."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class MultiTask(nn.Module):
    def __init__(self):
        super().__init__()
        self.shared = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
        self.depth, self.kind = nn.Linear(64, 1), nn.Linear(64, 3)
        self.log_vars = nn.Parameter(torch.zeros(2))

    def forward(self, x):
        h = self.shared(x)
        return self.depth(h)[:, 0], self.kind(h)


model = MultiTask()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
a, b = torch.randn(12), torch.randn(12, 3)
history = []
for step in range(steps):
    x = torch.randn(64, 12)
    depth, kind = torch.tanh(x @ a / 3), (x @ b).argmax(1)
    p_depth, p_kind = model(x)
    losses = torch.stack([F.mse_loss(p_depth, depth), F.cross_entropy(p_kind, kind)])
    loss = (losses * torch.exp(-model.log_vars) + 0.5 * model.log_vars).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(losses.sum().item())
    if step % 50 == 0:
        print(step, loss.item(), losses.tolist(), model.log_vars.tolist())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
