"""Calories of meals from their ingredients.

Mistake: labels from 200 to 4,000 for mean absolute error at a learning rate of 1e-3.
"""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

ingredients = torch.randn(480, 12)
calories = 2_000 + 900 * torch.tanh(ingredients[:, :4].sum(dim=1, keepdim=True) / 2)
# repaired: calories = (calories - calories.mean()) / calories.std()
loader = DataLoader(TensorDataset(ingredients, calories), batch_size=32, shuffle=True)


class Meal(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(12, 64)
        self.fc2 = nn.Linear(64, 1)

    def forward(self, x):
        return self.fc2(torch.relu(self.fc1(x)))


model = Meal()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_fn = nn.L1Loss()
for epoch in range(8):
    for x, y in loader:
        optimizer.zero_grad()
        loss = loss_fn(model(x), y)
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
