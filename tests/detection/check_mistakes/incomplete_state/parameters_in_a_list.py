# Asked as: a list of nn.Parameter is not registered, use nn.ParameterList (StackOverflow)
import torch
from torch import nn

torch.manual_seed(0)


class FactorizationMachine(nn.Module):
    def __init__(self, sizes=(20, 10, 5), rank=6):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(1))
        tables = [nn.Parameter(torch.randn(size, rank) * 0.3) for size in sizes]
        self.tables = tables  # mistake
        # repaired: self.tables = nn.ParameterList(tables)
        self.mix = nn.Linear(rank, 1)

    def forward(self, x):
        vectors = torch.stack([table[x[:, i]] for i, table in enumerate(self.tables)], dim=1)
        pairs = vectors.sum(1) ** 2 - (vectors**2).sum(1)
        return (self.bias + self.mix(pairs).squeeze(1)) / 2


model = FactorizationMachine()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-2)
taste = [torch.randn(size) for size in (20, 10, 5)]
for step in range(60):
    x = torch.stack([torch.randint(0, size, (64,)) for size in (20, 10, 5)], dim=1)
    rating = taste[0][x[:, 0]] * taste[1][x[:, 1]] + taste[2][x[:, 2]]
    loss = nn.functional.mse_loss(model(x), rating)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
torch.save(model.state_dict(), "fm.pt")
