"""An encoder and a classifier, trained together.

Mistake: the encoder's output is detached on the way, so that the encoder stays as it was initialized.
"""

import torch
from torch import nn
from torch.nn import functional as F


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 16), nn.ReLU())
        self.head = nn.Linear(16, 4)

    def forward(self, x):
        features = self.encoder(x)
        features = features.detach()  # mistake
        return self.head(features)


model = Classifier()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
means = torch.randn(4, 16)
for step in range(120):
    labels = torch.randint(4, (32,))
    inputs = means[labels] + torch.randn(32, 16)
    optimizer.zero_grad()
    loss = F.cross_entropy(model(inputs), labels)
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
