"""Three quantiles at once by the pinball loss, Poisson counts beside them."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class QuantileLoss(nn.Module):
    def __init__(self, quantiles):
        super().__init__()
        self.register_buffer("q", torch.tensor(quantiles))

    def forward(self, prediction, target):
        error = target[:, None] - prediction
        return torch.maximum(self.q * error, (self.q - 1) * error).mean()


body = nn.Sequential(nn.Linear(5, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU())
heads = nn.ModuleDict({"quantiles": nn.Linear(64, 3), "count": nn.Linear(64, 1)})
pinball, poisson = QuantileLoss([0.1, 0.5, 0.9]), nn.PoissonNLLLoss(log_input=True)
optimizer = torch.optim.Adam([*body.parameters(), *heads.parameters()], lr=2e-3)
history = []
for step in range(steps):
    x = torch.randn(64, 5)
    demand = 2 * x[:, 0] + x[:, 1].abs() * torch.randn(64) * 0.5
    visitors = torch.poisson(torch.exp(0.5 + 0.6 * x[:, 2]))
    h = body(x)
    loss_q = pinball(heads["quantiles"](h), demand)
    loss = loss_q + 0.2 * poisson(heads["count"](h)[:, 0], visitors)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss_q.item())
    if step % 50 == 0:
        print(step, loss_q.item(), loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
