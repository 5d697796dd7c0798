"""A classifier whose author prints the shape of an output before training.

Mistake: softmax before CrossEntropyLoss.
"""

import torch
from torch import nn

y = torch.randint(4, (600,))
x = torch.randn(600, 8)
x[torch.arange(600), y] += 2.0

model = nn.Sequential(
    nn.Linear(8, 32),
    nn.ReLU(),
    nn.Linear(32, 4),
    nn.Softmax(dim=-1),  # mistake
)
print(model(x[:1]).shape)
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(6):
    for rows in torch.randperm(600).split(30):
        optimizer.zero_grad()
        loss = loss_fn(model(x[rows]), y[rows])
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
