"""A classifier of colour images, with a transform for each of the two sets.

Mistake: only the transform of the training normalizes the images.
"""

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset

mean, std = torch.tensor([0.49, 0.48, 0.45]).view(3, 1, 1), torch.tensor([0.25, 0.24, 0.26]).view(3, 1, 1)
labels = torch.randint(4, (700,))
images = (mean + std * torch.randn(700, 3, 12, 12)).clamp(0, 1)
images[torch.arange(700), :, 3 * labels] = 1.0


class Images(Dataset):
    def __init__(self, part, transform):
        self.part, self.transform = part, transform

    def __len__(self):
        return len(self.part)

    def __getitem__(self, at):
        index = self.part[at]
        return self.transform(images[index]), labels[index]


def augmented(image):
    image = image.flip(-1) if torch.rand(()) < 0.5 else image
    return (image - mean) / std


def plain(image):
    return image  # mistake
    # repaired: return (image - mean) / std


train = DataLoader(Images(range(560), augmented), batch_size=40, shuffle=True)
valid = DataLoader(Images(range(560, 700), plain), batch_size=70)
model = nn.Sequential(nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.Flatten(), nn.Linear(12 * 144, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
for epoch in range(6):
    model.train()
    for x, y in train:
        loss = F.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        losses = [F.cross_entropy(model(x), y).item() for x, y in valid]
    print(epoch, loss.item(), sum(losses) / len(losses))
