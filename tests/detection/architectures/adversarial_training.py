"""Each batch is also shown moved along the sign of its gradient, and smooth slopes are asked for (R1)."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)

net = nn.Sequential(nn.Linear(6, 48), nn.Softplus(), nn.Linear(48, 3))
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
rule = torch.randn(6, 3)
for step in range(60):
    x = torch.randn(64, 6)
    y = (x @ rule).argmax(1)
    x.requires_grad_()
    logits = net(x)
    loss = F.cross_entropy(logits, y)
    slope = torch.autograd.grad(loss, x, retain_graph=True)[0]
    moved = (x + 0.1 * slope.sign()).detach()
    smooth = torch.autograd.grad(logits.gather(1, y[:, None]).sum(), x, create_graph=True)[0]
    loss = loss + F.cross_entropy(net(moved), y) + 0.05 * smooth.square().sum(1).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
