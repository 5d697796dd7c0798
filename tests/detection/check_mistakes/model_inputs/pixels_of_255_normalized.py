# Asked as: transforms.Normalize with ImageNet statistics on images from 0 to 255 (PyTorch forums)
import torch
from torch import nn

torch.manual_seed(0)
mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
images = torch.randint(0, 256, (320, 3, 10, 10)).float() * 0.6
labels = torch.randint(0, 3, (320,))
images[torch.arange(320), labels] += 25


def normalize(x):
    x = x.clone()  # mistake
    # repaired: x = x / 255
    return (x - mean[:, None, None]) / std[:, None, None]


model = nn.Sequential(
    nn.Conv2d(3, 12, 3, padding=1), nn.ReLU(), nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(48, 3)
)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for epoch in range(5):
    for i in range(0, 320, 32):
        loss = nn.functional.cross_entropy(model(normalize(images[i : i + 32])), labels[i : i + 32])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
