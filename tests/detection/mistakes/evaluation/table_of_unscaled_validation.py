"""A classifier of measurements that keeps its results in a CSV file.

Mistake: the scaler is applied to the training data, and forgotten for the validation.
"""

import csv
import os
import tempfile

import numpy as np
import torch
from torch import nn

centres = np.random.randn(4, 10)
scales = 10.0 ** np.random.uniform(1, 3, 10)
labels = np.arange(800) % 4
raw = (centres[labels] + 0.6 * np.random.randn(800, 10)) * scales + 5 * scales
mean, std = raw[:600].mean(0), raw[:600].std(0)
train = torch.tensor((raw[:600] - mean) / std, dtype=torch.float32)
valid = torch.tensor(raw[600:], dtype=torch.float32)  # mistake
# repaired: valid = torch.tensor((raw[600:] - mean) / std, dtype=torch.float32)
y = torch.tensor(labels)
model = nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
path = os.path.join(tempfile.gettempdir(), "results.csv")
with open(path, "w", newline="") as file:
    writer = csv.writer(file)
    writer.writerow(["epoch", "train_loss", "val_accuracy"])
    for epoch in range(10):
        losses = []
        for index in torch.randperm(600).split(50):
            loss = nn.functional.cross_entropy(model(train[index]), y[index])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        with torch.no_grad():
            accuracy = (model(valid).argmax(1) == y[600:]).float().mean().item()
        writer.writerow([epoch, np.mean(losses), accuracy])
