"""A siamese network with the contrastive loss as a module of its own, validated after each epoch."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class ContrastiveLoss(nn.Module):
    def __init__(self, margin=2.0):
        super().__init__()
        self.margin = margin

    def forward(self, output1, output2, label):
        distance = F.pairwise_distance(output1, output2)
        return torch.mean((1 - label) * distance.pow(2) + label * F.relu(self.margin - distance).pow(2))


net = nn.Sequential(nn.Linear(24, 64), nn.ReLU(), nn.Linear(64, 8))
criterion = ContrastiveLoss()
optimizer = torch.optim.Adam(net.parameters(), lr=1e-3)
centres = torch.randn(10, 24)


def pairs(n=64):
    a = torch.randint(10, (n,))
    b = torch.where(torch.rand(n) < 0.5, a, torch.randint(10, (n,)))
    return centres[a] + 0.5 * torch.randn(n, 24), centres[b] + 0.5 * torch.randn(n, 24), (a != b).float()


history = []
for epoch in range(max(2, steps // 25)):
    net.train()
    for _ in range(25):
        x1, x2, label = pairs()
        optimizer.zero_grad()
        loss = criterion(net(x1), net(x2), label)
        loss.backward()
        optimizer.step()
        history.append(loss.item())
    net.eval()
    with torch.no_grad():
        x1, x2, label = pairs(256)
        print(epoch, loss.item(), criterion(net(x1), net(x2), label).item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
