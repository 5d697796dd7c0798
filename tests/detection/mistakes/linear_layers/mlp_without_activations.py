"""A perceptron, as carried over from Keras, where Dense(64, activation="relu") brings the activation.

Mistake: linear layers in sequence are one linear layer.
"""

import torch
from torch import nn

model = nn.Sequential(
    nn.Linear(6, 64),
    # repaired: nn.ReLU(),
    nn.Linear(64, 64),
    # repaired: nn.ReLU(),
    nn.Linear(64, 2),
)
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(150):
    x = torch.randn(48, 6)
    y = (x[:, 0] * x[:, 1] > 0).long()
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, loss.item())
