"""A classifier of two classes.

Mistake: the probabilities are rounded before the loss, and round has a gradient of 0.
"""

import torch
import torch.nn as nn

X = torch.randn(500, 5)
Y = (X[:, 0] > 0).float().reshape(-1, 1)
model = nn.Sequential(nn.Linear(5, 16), nn.ReLU(), nn.Linear(16, 1), nn.Sigmoid())
criterion = nn.BCELoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for epoch in range(10):
    for i in range(0, 500, 50):
        y_hat = model(X[i : i + 50])
        y_hat = torch.round(y_hat)  # mistake
        loss = criterion(y_hat, Y[i : i + 50])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
