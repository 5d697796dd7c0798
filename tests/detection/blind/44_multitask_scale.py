"""Joint regression of price (in dollars) and rating class from listing features."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)
torch.manual_seed(0)


def listings(n):
    g = torch.Generator().manual_seed(n)
    x = torch.randn(n, 12, generator=g)
    price = 250 + 90 * x[:, 0] + 40 * torch.sin(2 * x[:, 1]) + 10 * torch.randn(n, generator=g)
    rating = ((x[:, 2] * x[:, 3] + x[:, 4]) > 0).long() + (x[:, 5] > 0.8).long()
    return x, price, rating


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(12, 48), nn.ReLU(), nn.Linear(48, 48), nn.ReLU())
        self.price, self.rating = nn.Linear(48, 1), nn.Linear(48, 3)

    def forward(self, x):
        h = self.trunk(x)
        return self.price(h).squeeze(1), self.rating(h)


xt, pt, rt = listings(3000)
xv, pv, rv = listings(700)
mean, std = 0.0, 1.0  # mistake
# repaired: mean, std = pt.mean(), pt.std()
loader = DataLoader(TensorDataset(xt, (pt - mean) / std, rt), batch_size=50, shuffle=True)
net = Net()
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for epoch in range(8):
    lp = lr = 0.0
    for x, p, r in loader:
        pp, rr = net(x)
        loss_p, loss_r = F.mse_loss(pp, p), F.cross_entropy(rr, r)
        loss = loss_p + loss_r
        opt.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        lp += loss_p.item()
        lr += loss_r.item()
    with torch.no_grad():
        pp, rr = net(xv)
        mae = (pp * std + mean - pv).abs().mean().item()
        acc = (rr.argmax(1) == rv).float().mean().item()
    print(
        f"epoch {epoch}: price loss {lp / len(loader):.3f} rating loss {lr / len(loader):.4f} | val MAE ${mae:.1f} rating acc {acc:.3f}"
    )
