"""Layers of a pretrained network are thawed from the top, each with a smaller learning rate (ULMFiT)."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
body = nn.ModuleList([nn.Linear(14, 48), nn.Linear(48, 48), nn.Linear(48, 48)])


class Classifier(nn.Module):
    def __init__(self, classes):
        super().__init__()
        self.body, self.head = body, nn.Linear(48, classes)

    def forward(self, x):
        for layer in self.body:
            x = torch.relu(layer(x))
        return self.head(x)


teacher = torch.randn(14, 5)


def batch(classes):
    x = torch.randn(32, 14)
    return x, (x @ teacher[:, :classes]).argmax(1)


model = Classifier(5)
opt = torch.optim.Adam(model.parameters(), lr=2e-3)
for _ in range(steps // 2):
    x, y = batch(5)
    opt.zero_grad()
    nn.functional.cross_entropy(model(x), y).backward()
    opt.step()

model = Classifier(3)
model.body.requires_grad_(False)
optimizer = torch.optim.Adam([{"params": model.head.parameters(), "lr": 3e-3}])
losses = []
for stage in range(4):
    if stage:
        layer = model.body[3 - stage].requires_grad_(True)
        optimizer.add_param_group({"params": layer.parameters(), "lr": 3e-3 / 2.6**stage})
    for _ in range(max(15, steps // 4)):
        x, y = batch(3)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    print("stage", stage, losses[-1])
print(f"loss fell from {losses[0]:.4g} to {sum(losses[-10:]) / 10:.4g}")
