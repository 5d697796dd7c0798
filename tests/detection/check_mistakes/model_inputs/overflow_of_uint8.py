# Asked as: brightness augmentation on uint8 images makes strange colours (StackOverflow, wrap-around)
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(0)
torch.manual_seed(0)
labels = rng.integers(0, 2, 320)
images = rng.integers(150, 200, (320, 1, 8, 8)).astype(np.uint8)
for image, label in zip(images, labels):
    image[0, 4 * label : 4 * label + 4] += 40


def brighten(batch):
    batch = batch + np.uint8(70)  # mistake
    # repaired: batch = np.clip(batch.astype(np.float32) + 10, 0, 255)
    return torch.from_numpy(batch).float().sub(128).div(64)


model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(288, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(4):
    for i in range(0, 320, 32):
        x, y = brighten(images[i : i + 32]), torch.from_numpy(labels[i : i + 32])
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
