"""A trained backbone of which only a new head is trained.

Mistake: requires_grad does not stop batch normalization from updating its averages; the backbone is in training mode.
"""

import torch
from torch import nn

backbone = nn.Sequential(nn.Linear(10, 32), nn.BatchNorm1d(32), nn.ReLU(), nn.Linear(32, 32), nn.BatchNorm1d(32))
with torch.no_grad():
    for _ in range(50):
        backbone(torch.randn(64, 10))


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.backbone = backbone
        self.head = nn.Linear(32, 3)

    def forward(self, x):
        return self.head(torch.relu(self.backbone(x)))


model = Classifier()
for parameter in model.backbone.parameters():
    parameter.requires_grad = False
optimizer = torch.optim.Adam(model.head.parameters(), lr=3e-3)
places = torch.randn(3, 10)
model.train()
# repaired: model.backbone.eval()
for step in range(150):
    labels = torch.randint(3, (32,))
    x = 2 + places[labels] + 0.7 * torch.randn(32, 10)
    loss = nn.functional.cross_entropy(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 0:
        print(step, loss.item())
