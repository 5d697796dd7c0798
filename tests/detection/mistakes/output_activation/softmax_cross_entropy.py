"""An iris-like classifier with three classes.

Mistake: softmax before CrossEntropyLoss, which takes logits.
"""

import torch
from torch import nn

centres = torch.tensor([[2.0, 0.0, -1.0, 0.5], [-1.0, 1.5, 0.5, -1.0], [0.0, -1.5, 1.0, 1.0]])
labels = torch.randint(3, (600,))
features = centres[labels] + 0.7 * torch.randn(600, 4)

model = nn.Sequential(
    nn.Linear(4, 50),
    nn.ReLU(),
    nn.Linear(50, 50),
    nn.ReLU(),
    nn.Linear(50, 3),
    nn.Softmax(dim=1),  # mistake
)
loss_fn = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=0.001)

for epoch in range(120):
    rows = torch.randperm(600)[:64]
    y_pred = model(features[rows])
    loss = loss_fn(y_pred, labels[rows])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 20 == 0:
        print(f"Epoch {epoch}, loss {loss.item()}")
