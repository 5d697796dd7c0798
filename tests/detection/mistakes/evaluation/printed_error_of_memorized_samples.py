"""A regression on a few dozen samples, whose error on held-out samples is computed with NumPy and printed.

Mistake: trained for hundreds of epochs after the held-out samples have got worse.
"""

import numpy as np
import torch
from torch import nn

count = 48  # mistake
# repaired: count = 4800
weights = np.random.randn(30)


def samples(n):
    x = np.random.randn(n, 30)
    return x.astype("float32"), (x @ weights / 12 + np.random.randn(n)).astype("float32")


x_train, y_train = samples(count)
x_val, y_val = samples(400)
model = nn.Sequential(nn.Linear(30, 128), nn.ReLU(), nn.Linear(128, 1))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
inputs, targets = torch.from_numpy(x_train), torch.from_numpy(y_train)
for epoch in range(60):
    losses = []
    for _ in range(10):
        index = torch.randint(count, (16,))
        loss = nn.functional.mse_loss(model(inputs[index]).squeeze(1), targets[index])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    with torch.no_grad():
        predicted = model(torch.from_numpy(x_val)).squeeze(1).numpy()
    rmse = np.sqrt(np.mean((predicted - y_val) ** 2))
    print(f"epoch {epoch + 1:3d}/60 | lr 1.0e-03 | loss {np.mean(losses):.4f} | val_rmse {rmse:.4f} | 0.1s")
