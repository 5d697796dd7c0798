# Asked as: I add up the losses of micro-batches and call backward once, memory and result are odd (PyTorch forums)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(9, 40), nn.ReLU(), nn.Linear(40, 3))

    def forward(self, x):
        return self.layers(x)


model = MLP()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
concept = torch.randn(9, 3)
for step in range(40):
    x = torch.randn(64, 9)
    y = (x @ concept).argmax(1)
    loss = 0.0
    for inputs, labels in zip(x.chunk(4), y.chunk(4)):
        loss = F.cross_entropy(model(inputs), labels) / 4  # mistake
        # repaired: loss = loss + F.cross_entropy(model(inputs), labels) / 4
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
