"""A classifier that is trained on full batches, as with fit(epochs=20) in Keras.

Mistake: twenty updates at a small rate; the loss still falls when the training ends.
"""

import torch
from torch import nn

x = torch.randn(800, 12)
y = (x[:, 0] - x[:, 1] > 0).long()
model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 2))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
epochs = 20  # mistake
# repaired: epochs = 300
for epoch in range(epochs):
    optimizer.zero_grad()
    loss = criterion(model(x), y)
    loss.backward()
    optimizer.step()
    if epoch % 5 == 0:
        print(epoch, loss.item())
