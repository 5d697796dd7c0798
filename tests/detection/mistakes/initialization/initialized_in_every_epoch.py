"""Letters of two kinds, read as an image of 6 x 6 pixels.

Mistake: the function that initializes the weights is called in every epoch.
"""

import torch
from torch import nn


def initialize(module):
    if isinstance(module, nn.Linear):
        nn.init.xavier_uniform_(module.weight)
        nn.init.zeros_(module.bias)


strokes = torch.randn(4, 36)
letters = torch.randint(4, (800,))
images = strokes[letters] + 1.5 * torch.randn(800, 36)
model = nn.Sequential(nn.Linear(36, 32), nn.ReLU(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
# repaired: model.apply(initialize)
for epoch in range(6):
    model.apply(initialize)  # mistake
    for rows in torch.randperm(800).split(20):
        loss = nn.functional.cross_entropy(model(images[rows]), letters[rows])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
