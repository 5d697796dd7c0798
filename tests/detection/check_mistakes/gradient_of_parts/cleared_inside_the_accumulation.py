# Asked as: gradient accumulation gives the same result as a small batch (StackOverflow, zero_grad in the inner loop)
import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(nn.Conv1d(2, 8, 5, padding=2), nn.ReLU(), nn.AdaptiveMaxPool1d(1), nn.Flatten(), nn.Linear(8, 2))
optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
accumulation = 4
batches = []
for _ in range(120):
    y = torch.randint(0, 2, (16,))
    x = torch.randn(16, 2, 24)
    x[torch.arange(16), y, 10:14] += 2
    batches.append((x, y))

for i, (x, y) in enumerate(batches):
    optimizer.zero_grad()  # mistake
    loss = nn.functional.cross_entropy(net(x), y) / accumulation
    loss.backward()
    if (i + 1) % accumulation == 0:
        optimizer.step()
        # repaired: optimizer.zero_grad()
    if i % 24 == 0:
        print(i, loss.item() * accumulation)
