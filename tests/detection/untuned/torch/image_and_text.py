"""CLIP: pictures and texts meet in one space, with a learned temperature."""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class CLIP(nn.Module):
    def __init__(self):
        super().__init__()
        self.visual = nn.Sequential(nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 24, bias=False))
        self.token = nn.Embedding(40, 32)
        self.text = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, 24, bias=False))
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))

    def forward(self, image, words):
        i = F.normalize(self.visual(image), dim=1)
        t = F.normalize(self.text(self.token(words).mean(1)), dim=1)
        return self.logit_scale.exp() * i @ t.T


model = CLIP()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.98), weight_decay=0.1)
render = torch.randn(40, 32)
history = []
for step in range(steps):
    words = torch.randint(40, (32, 3))
    image = render[words].mean(1) + 0.1 * torch.randn(32, 32)
    logits = model(image, words)
    labels = torch.arange(32)
    loss = (F.cross_entropy(logits, labels) + F.cross_entropy(logits.T, labels)) / 2
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        model.logit_scale.clamp_(0, math.log(100))
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item(), model.logit_scale.exp().item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
