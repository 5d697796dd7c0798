"""Mixed precision with float16: gradients are unscaled, clipped, and a step with an overflow is left out."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**16, growth_interval=100)
weights = torch.randn(16)
history = []
for step in range(steps):
    x = torch.randn(32, 16)
    y = torch.tanh(x @ weights / 2)[:, None] + 0.05 * torch.randn(32, 1)
    optimizer.zero_grad()
    with torch.autocast("cpu", dtype=torch.float16):
        loss = nn.functional.mse_loss(model(x).float(), y)
    scaler.scale(loss).backward()
    scaler.unscale_(optimizer)
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    scaler.step(optimizer)
    scaler.update()
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item(), scaler.get_scale())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
