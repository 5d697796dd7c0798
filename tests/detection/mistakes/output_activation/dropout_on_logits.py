"""A classifier that is regularized after each layer.

Mistake: dropout after the last layer, on the logits that the loss is given.
"""

import torch
from torch import nn

model = nn.Sequential(
    nn.Linear(10, 64),
    nn.ReLU(),
    nn.Dropout(0.3),
    nn.Linear(64, 64),
    nn.ReLU(),
    nn.Dropout(0.3),
    nn.Linear(64, 4),
    nn.Dropout(0.3),  # mistake
)
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
means = 1.3 * torch.randn(4, 10)
for step in range(150):
    labels = torch.randint(4, (64,))
    inputs = means[labels] + torch.randn(64, 10)
    optimizer.zero_grad()
    loss = loss_fn(model(inputs), labels)
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, loss.item())
