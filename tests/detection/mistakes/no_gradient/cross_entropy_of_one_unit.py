"""Two classes with one output unit.

Mistake: cross entropy over a single class is 0, whatever the output.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

x = torch.randn(512, 9)
y = (x[:, 0] + x[:, 1] > 0).float().unsqueeze(1)
loader = DataLoader(TensorDataset(x, y), batch_size=32, shuffle=True)
model = nn.Sequential(nn.Linear(9, 18), nn.ReLU(), nn.Linear(18, 1))
criterion = nn.CrossEntropyLoss()  # mistake
# repaired: criterion = nn.BCEWithLogitsLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for epoch in range(6):
    for inputs, labels in loader:
        optimizer.zero_grad()
        loss = criterion(model(inputs), labels)
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item()}")
