"""A classifier.

Mistake: no zero_grad(), so that gradients add up over all steps.
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

inputs = torch.randn(512, 10)
targets = (inputs @ torch.randn(10, 3)).argmax(dim=1)
loader = DataLoader(TensorDataset(inputs, targets), batch_size=32)
model = nn.Sequential(nn.Linear(10, 40), nn.ReLU(), nn.Linear(40, 3))
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
for epoch in range(6):
    for x, y in loader:
        outputs = model(x)
        loss = criterion(outputs, y)
        # repaired: optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
