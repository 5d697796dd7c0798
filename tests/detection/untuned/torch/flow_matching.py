"""Flow matching of points, with a moving average of the weights that draws samples now and then."""

import sys

import torch
from torch import nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class Velocity(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(5, 96), nn.SiLU(), nn.Linear(96, 96), nn.SiLU(), nn.Linear(96, 2))

    def forward(self, x, t):
        return self.net(torch.cat([x, t, torch.sin(6 * t), torch.cos(6 * t)], 1))


model = Velocity()
ema = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.98))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
history = []
for step in range(steps):
    angle = torch.rand(128, 1) * 6.2832
    x1 = torch.cat([angle.cos(), angle.sin()], 1) * 2 + 0.05 * torch.randn(128, 2)
    x0, t = torch.randn(128, 2), torch.rand(128, 1)
    xt = (1 - t) * x0 + t * x1
    loss = (model(xt, t) - (x1 - x0)).pow(2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    ema.update_parameters(model)
    history.append(loss.item())
    if step % 100 == 99:
        ema.eval()
        with torch.no_grad():
            x = torch.randn(64, 2)
            for k in range(10):
                x = x + 0.1 * ema(x, torch.full((64, 1), k / 10))
        print(step, loss.item(), "radius", x.norm(dim=1).mean().item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
