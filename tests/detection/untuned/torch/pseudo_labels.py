"""FixMatch: an unlabelled loss that is 0 at first, since no prediction is sure, and rises before it falls."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.03, momentum=0.9, nesterov=True)
centres = torch.randn(4, 16) * 1.2
known_y = torch.arange(4).repeat(10)
known_x = centres[known_y] + 0.7 * torch.randn(40, 16)
test_y = torch.randint(4, (400,))
test_x = centres[test_y] + 0.7 * torch.randn(400, 16)


def accuracy():
    model.eval()
    with torch.no_grad():
        result = (model(test_x).argmax(1) == test_y).float().mean().item()
    model.train()
    return result


before = accuracy()
for step in range(steps):
    index = torch.randint(40, (16,))
    free = centres[torch.randint(4, (64,))] + 0.7 * torch.randn(64, 16)
    weak = free + 0.1 * torch.randn_like(free)
    strong = free * (torch.rand_like(free) > 0.3) + 0.3 * torch.randn_like(free)
    logits = model(torch.cat([known_x[index], weak, strong]))
    lx, lw, ls = logits.split([16, 64, 64])
    confidence, pseudo = lw.detach().softmax(1).max(1)
    mask = (confidence > 0.95).float()
    loss_x = F.cross_entropy(lx, known_y[index])
    loss_u = (F.cross_entropy(ls, pseudo, reduction="none") * mask).mean()
    loss = loss_x + loss_u
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss_x.item(), loss_u.item(), mask.mean().item(), accuracy())
print(f"accuracy rose from {before:.4g} to {accuracy():.4g}")
