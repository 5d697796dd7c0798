"""A VAE of small blobs; new ones are drawn from the prior at the end."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)


def blobs(n, generator):
    place = torch.rand(n, 2, 1, 1, generator=generator) * 6 + 3
    width = torch.rand(n, 1, 1, generator=generator) + 1.2
    axis = torch.arange(12.0)
    distance = (axis[None, None, :] - place[:, 0]) ** 2 + (axis[None, :, None] - place[:, 1]) ** 2
    return torch.exp(-distance / (2 * width**2)).flatten(1)


class VAE(nn.Module):
    def __init__(self, latent=6):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(144, 128), nn.ReLU())
        self.mu, self.logvar = nn.Linear(128, latent), nn.Linear(128, latent)
        self.decoder = nn.Sequential(nn.Linear(latent, 128), nn.ReLU(), nn.Linear(128, 144))

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar) if FIXED else torch.exp(logvar)
        return mu + std * torch.randn_like(std)

    def forward(self, x):
        hidden = self.encoder(x)
        mu, logvar = self.mu(hidden), self.logvar(hidden)
        return self.decoder(self.reparameterize(mu, logvar)), mu, logvar


def loss_function(logits, x, mu, logvar):
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="none").sum(1).mean()
    kl = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum(1).mean()
    return reconstruction, kl


@torch.no_grad()
def sample_quality(model, reference):
    drawn = torch.sigmoid(model.decoder(torch.randn(300, 6)))
    return torch.cdist(drawn, reference).min(1).values.mean().item()


def main():
    generator = torch.Generator().manual_seed(0)
    train, val = blobs(3000, generator), blobs(600, generator)
    loader = DataLoader(TensorDataset(train), batch_size=100, shuffle=True)
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    for epoch in range(12):
        model.train()
        for (x,) in loader:
            logits, mu, logvar = model(x)
            reconstruction, kl = loss_function(logits, x, mu, logvar)
            loss = reconstruction + kl
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            logits, mu, logvar = model(val)
            val_reconstruction, val_kl = loss_function(logits, val, mu, logvar)
        if epoch % 3 == 2:
            print(f"epoch {epoch}  loss {loss.item():.2f}  val {val_reconstruction:.2f} + {val_kl:.2f}")
    print(f"final val loss {val_reconstruction + val_kl:.2f}  samples' distance {sample_quality(model, train):.3f}")


if __name__ == "__main__":
    main()
