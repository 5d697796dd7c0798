# Asked as: gradient accumulation, should I divide the loss by the number of steps? (PyTorch forums)
import torch
from torch import nn

torch.manual_seed(0)
ACCUMULATE = 4
model = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 5))
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
criterion = nn.CrossEntropyLoss()
centres = torch.randn(5, 10)
for step in range(40):
    total = 0.0
    optimizer.zero_grad()
    for _ in range(ACCUMULATE):
        y = torch.randint(0, 5, (16,))
        x = centres[y] + torch.randn(16, 10)
        loss = criterion(model(x), y)  # mistake
        # repaired: loss = criterion(model(x), y) / ACCUMULATE
        loss.backward()
        total += loss.item()
    optimizer.step()
    if step % 10 == 0:
        print(step, total)
