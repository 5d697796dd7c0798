import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader

torch.set_num_threads(1)
torch.manual_seed(0)


def bars(n, s=10):
    x = torch.zeros(n, s, s)
    rows = torch.rand(n, s) < 0.2
    cols = torch.rand(n, s) < 0.2
    x[rows[:, :, None].expand(n, s, s)] = 1.0
    x[cols[:, None, :].expand(n, s, s)] = 1.0
    return x.flatten(1)


class VAE(nn.Module):
    def __init__(self, d=100, h=128, z=10):
        super().__init__()
        self.enc = nn.Sequential(nn.Linear(d, h), nn.ReLU())
        self.mu, self.logvar = nn.Linear(h, z), nn.Linear(h, z)
        self.dec = nn.Sequential(nn.Linear(z, h), nn.ReLU(), nn.Linear(h, d), nn.Sigmoid())

    def forward(self, x):
        h = self.enc(x)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(z), mu, logvar


def loss_function(recon, x, mu, logvar):
    bce = F.binary_cross_entropy(recon, x, reduction="mean")  # mistake
    # repaired: bce = F.binary_cross_entropy(recon, x, reduction="sum")
    kld = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return bce, kld


data = bars(3000)
loader = DataLoader(data, batch_size=64, shuffle=True)
model = VAE()
opt = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(1, 11):
    b = k = 0.0
    for x in loader:
        recon, mu, logvar = model(x)
        bce, kld = loss_function(recon, x, mu, logvar)
        loss = bce + kld
        opt.zero_grad()
        loss.backward()
        opt.step()
        b += bce.item()
        k += kld.item()
    with torch.no_grad():
        r, mu, _ = model(data[:500])
        acc = ((r > 0.5) == (data[:500] > 0.5)).float().mean().item()
    print(
        f"====> Epoch {epoch} bce {b / len(loader):.4f} kld {k / len(loader):.4f} mu std {mu.std():.4f} pixel acc {acc:.4f}"
    )
