"""Three classifiers with three optimizers that see each batch in turn."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
centres = torch.randn(5, 16) * 1.2
models = [nn.Sequential(nn.Linear(16, w), nn.ReLU(), nn.Linear(w, 5)) for w in (16, 32, 64)]
optimizers = [torch.optim.Adam(model.parameters(), lr=3e-3) for model in models]
criterion = nn.CrossEntropyLoss()
history = []
for step in range(steps):
    y = torch.randint(5, (32,))
    x = centres[y] + torch.randn(32, 16)
    losses = []
    for model, optimizer in zip(models, optimizers):
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    history.append(sum(losses) / len(losses))
    if step % 50 == 0:
        print(step, [round(loss, 3) for loss in losses])
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
