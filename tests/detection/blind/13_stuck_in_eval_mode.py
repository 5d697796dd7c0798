"""CNN with batch norm; validates every 10 iterations."""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)


def images(n, seed):
    g = torch.Generator().manual_seed(seed)
    y = torch.randint(0, 3, (n,), generator=g)
    x = torch.randn(n, 3, 10, 10, generator=g) * 20
    ramp = torch.linspace(-1, 1, 10)
    pats = torch.stack([ramp[None, :].expand(10, 10), ramp[:, None].expand(10, 10), ramp[None, :] * ramp[:, None]])
    x = x + 20 * pats[y][:, None] + 120
    return x, y


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.f = nn.Sequential(
            nn.Conv2d(3, 12, 3, padding=1),
            nn.BatchNorm2d(12),
            nn.ReLU(),
            nn.Conv2d(12, 12, 3, stride=2, padding=1),
            nn.BatchNorm2d(12),
            nn.ReLU(),
            nn.Flatten(),
            nn.Dropout(0.3),
            nn.Linear(12 * 25, 3),
        )

    def forward(self, x):
        return self.f(x)


@torch.no_grad()
def validate(model, loader, crit):
    model.eval()
    loss = hit = n = 0
    for x, y in loader:
        out = model(x)
        loss += crit(out, y).item() * len(y)
        hit += (out.argmax(1) == y).sum().item()
        n += len(y)
    return loss / n, hit / n


model = Net()
crit = nn.CrossEntropyLoss()
opt = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
train_loader = DataLoader(TensorDataset(*images(1600, 1)), batch_size=32, shuffle=True)
val_loader = DataLoader(TensorDataset(*images(320, 2)), batch_size=160)
it = 0
model.train()
for epoch in range(6):
    for x, y in train_loader:
        it += 1
        opt.zero_grad()
        loss = crit(model(x), y)
        loss.backward()
        opt.step()
        if it % 10 == 0:
            vl, va = validate(model, val_loader, crit)
            # repaired: model.train()
            if it % 50 == 0:
                print(f"iter {it} train {loss.item():.4f} val loss {vl:.4f} val acc {va:.3f}")
