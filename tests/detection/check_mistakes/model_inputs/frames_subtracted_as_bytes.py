# Asked as: frame differences as input, my motion classifier does not learn; values are near 0 or near 255 (StackOverflow)
import numpy as np
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
random = np.random.default_rng(0)


def clips(count):
    y = random.integers(0, 2, count)
    before = random.normal(90, 12, (count, 1, 10, 10))
    change = np.where(y == 1, 3, -3)[:, None, None, None] * (random.random(before.shape) < 0.3)
    after = before + change + random.normal(0, 1, before.shape)
    return before.clip(0, 255).astype(np.uint8), after.clip(0, 255).astype(np.uint8), torch.from_numpy(y)


model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 64, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for step in range(60):
    before, after, y = clips(32)
    difference = after - before  # mistake
    # repaired: difference = after.astype(np.int16) - before
    x = torch.from_numpy(difference.astype(np.float32)) / 255
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
