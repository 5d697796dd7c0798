"""Fine-tuning: the last layer of a trained network is replaced.

Mistake: the new layer comes after the optimizer, which still holds the old one.
"""

import torch
from torch import nn


class Pretrained(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.fc = nn.Linear(32, 10)

    def forward(self, x):
        return self.fc(self.features(x))


model = Pretrained()
# repaired: model.fc = nn.Linear(32, 3)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model.fc = nn.Linear(32, 3)  # mistake
criterion = nn.CrossEntropyLoss()
centers = torch.randn(3, 12)
model.train()
for step in range(120):
    labels = torch.randint(3, (32,))
    images = centers[labels] + 0.8 * torch.randn(32, 12)
    optimizer.zero_grad()
    loss = criterion(model(images), labels)
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
