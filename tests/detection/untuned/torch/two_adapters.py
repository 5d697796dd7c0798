"""Two adapters of one frozen network, trained in turn on two tasks: while one is active the other gets no gradient."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class Bottleneck(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.down, self.up = nn.Linear(width, 8), nn.Linear(8, width)
        nn.init.zeros_(self.up.weight)
        nn.init.zeros_(self.up.bias)

    def forward(self, x):
        return x + self.up(torch.relu(self.down(x)))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer1, self.layer2 = nn.Linear(10, 64), nn.Linear(64, 64)
        self.adapters = nn.ModuleDict({name: Bottleneck(64) for name in "ab"})
        self.heads = nn.ModuleDict({name: nn.Linear(64, 3) for name in "ab"})

    def forward(self, x, task):
        h = torch.relu(self.layer2(torch.relu(self.layer1(x))))
        return self.heads[task](self.adapters[task](h))


model = Network()
model.layer1.requires_grad_(False)
model.layer2.requires_grad_(False)
optimizer = torch.optim.Adam([p for p in model.parameters() if p.requires_grad], lr=5e-3)
centres = {name: torch.randn(3, 10) for name in "ab"}
history = {"a": [], "b": []}
for step in range(steps):
    task = "ab"[step // 20 % 2]
    y = torch.randint(3, (32,))
    x = centres[task][y] + torch.randn(32, 10) * 0.7
    loss = nn.functional.cross_entropy(model(x, task), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history[task].append(loss.item())
print(f"loss fell from {history['b'][0]:.4g} to {sum(history['b'][-10:]) / 10:.4g}")
