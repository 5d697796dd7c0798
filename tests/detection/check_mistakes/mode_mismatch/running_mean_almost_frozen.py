# Asked as: train accuracy 99 %, eval accuracy at chance, BatchNorm1d(momentum=1e-4) (StackOverflow)
import torch
from torch import nn

torch.manual_seed(0)


class Tabular(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(8, 32)
        self.norm = nn.BatchNorm1d(32, momentum=1e-4)  # mistake
        # repaired: self.norm = nn.BatchNorm1d(32, momentum=0.2)
        self.second = nn.Linear(32, 2)

    def forward(self, x):
        return self.second(torch.relu(self.norm(self.first(x))))


model = Tabular()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
concept = torch.randn(8)
for epoch in range(3):
    model.train()
    for _ in range(20):
        x = torch.randn(64, 8) * 4 + 3
        y = ((x - 3) @ concept > 0).long()
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    model.eval()
    with torch.no_grad():
        print(epoch, loss.item(), (model(x).argmax(1) == y).float().mean().item())
