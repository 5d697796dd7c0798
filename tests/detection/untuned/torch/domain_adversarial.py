"""Features that tell classes but not domains: the domain loss goes back reversed, and stays at ln 2 as it should."""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class Reverse(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, grad):
        return -ctx.strength * grad, None


features = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 24), nn.ReLU())
label_head, domain_head = nn.Linear(24, 3), nn.Sequential(nn.Linear(24, 24), nn.ReLU(), nn.Linear(24, 2))
parameters = [*features.parameters(), *label_head.parameters(), *domain_head.parameters()]
optimizer = torch.optim.SGD(parameters, lr=0.03, momentum=0.9)
centres, shift = torch.randn(3, 12) * 1.3, 0.7 * torch.randn(12)
history = []
for step in range(steps):
    p = step / steps
    strength = 2 / (1 + math.exp(-10 * p)) - 1
    ys, yt = torch.randint(3, (2, 32))
    xs = centres[ys] + 0.7 * torch.randn(32, 12)
    xt = centres[yt] + shift + 0.7 * torch.randn(32, 12)
    h = features(torch.cat([xs, xt]))
    domain = torch.cat([torch.zeros(32), torch.ones(32)]).long()
    label_loss = F.cross_entropy(label_head(h[:32]), ys)
    domain_loss = F.cross_entropy(domain_head(Reverse.apply(h, strength)), domain)
    optimizer.zero_grad()
    (label_loss + domain_loss).backward()
    optimizer.step()
    history.append(label_loss.item())
    if step % 50 == 0:
        print(step, label_loss.item(), domain_loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
