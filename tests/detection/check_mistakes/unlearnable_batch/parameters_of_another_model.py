# Asked as: the loss does not change at all, I replaced the model after creating the optimizer (PyTorch forums)
import copy

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Embedding(20, 16), nn.Flatten(), nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 2))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
model = copy.deepcopy(model)  # mistake
# repaired: backup = copy.deepcopy(model)
model.train()
criterion = nn.CrossEntropyLoss()
for epoch in range(4):
    running = 0.0
    for _ in range(12):
        x = torch.randint(0, 20, (32, 4))
        y = (x[:, 0] > x[:, 3]).long()
        loss = criterion(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        running += loss.item()
    print(epoch, running / 12)
