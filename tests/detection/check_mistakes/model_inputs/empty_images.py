# Asked as: all my inputs are black: integer division by 255 (StackOverflow)
import numpy as np
import torch
from torch import nn

rng = np.random.default_rng(1)
torch.manual_seed(0)
photos = rng.integers(0, 255, (256, 3, 8, 8)).astype(np.int64)
classes = (photos[:, 0].mean((1, 2)) > photos[:, 1].mean((1, 2))).astype(np.int64)
scaled = photos // 255  # mistake
# repaired: scaled = photos / 127.5 - 1
x, y = torch.tensor(scaled, dtype=torch.float32), torch.tensor(classes)

model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(5):
    for i in range(0, 256, 32):
        loss = nn.functional.cross_entropy(model(x[i : i + 32]), y[i : i + 32])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
