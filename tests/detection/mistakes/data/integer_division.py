"""Small images of three kinds.

Mistake: the pixels are divided by 255 as whole numbers, which leaves zeros.
"""

import torch
import torch.nn as nn

kinds = torch.randint(3, (300,))
pixels = torch.randint(0, 200, (300, 1, 8, 8)) + 25 * kinds[:, None, None, None]
images = (pixels // 255).float()  # mistake
# repaired: images = pixels / 255.0
model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(10):
    for part in torch.randperm(300).split(20):
        loss = nn.functional.cross_entropy(model(images[part]), kinds[part])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
