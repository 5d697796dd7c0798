"""Fine-tuning: a pretrained network gets a new last layer for three classes."""

import torch
from torch import nn

torch.manual_seed(0)


class Pretrained(nn.Module):
    """Stands for a network that was trained on ten classes."""

    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU())
        self.head = nn.Linear(32, 10)

    def forward(self, images):
        return self.head(self.features(images))


model = Pretrained()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
model.head = nn.Linear(32, 3)

centres = torch.randn(3, 12)
for step in range(150):
    labels = torch.randint(3, (32,))
    images = centres[labels] + torch.randn(32, 12)
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 0:
        print(f"step {step:3d}  loss {loss.item():.3f}", flush=True)
