"""A training that spends its time waiting for the data loader."""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)


class Photos(Dataset):
    """Photos that take four milliseconds to decode."""

    def __init__(self, count=256):
        self.files = torch.randn(count, 3, 24, 24)
        self.labels = torch.randint(10, (count,))

    def __len__(self):
        return len(self.labels)

    def decode(self, index):
        time.sleep(0.004)
        return self.files[index]

    def __getitem__(self, index):
        return self.decode(index), self.labels[index]


photos = Photos()
model = nn.Sequential(
    nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Conv2d(16, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(16 * 20 * 20, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for epoch in range(5):
    for images, labels in DataLoader(photos, batch_size=16, shuffle=True):
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}  loss {loss.item():.3f}", flush=True)
