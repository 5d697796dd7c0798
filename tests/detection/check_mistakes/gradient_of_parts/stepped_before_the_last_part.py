# Asked as: off by one in gradient accumulation: if i % steps == 0 (PyTorch forums)
import torch
from torch import nn

torch.manual_seed(0)
steps_per_update = 4
model = nn.Sequential(nn.Embedding(18, 12), nn.Flatten(), nn.Linear(60, 32), nn.ReLU(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(model.parameters(), lr=4e-3)
for epoch in range(10):
    for i in range(8):
        x = torch.randint(0, 18, (16, 5))
        y = x[:, 0] % 3
        loss = nn.functional.cross_entropy(model(x), y) / steps_per_update
        loss.backward()
        is_last = i % steps_per_update == 0  # mistake
        # repaired: is_last = (i + 1) % steps_per_update == 0
        if is_last:
            optimizer.step()
            optimizer.zero_grad()
    optimizer.zero_grad()
    print(epoch, loss.item() * steps_per_update)
