"""A variational autoencoder on small pictures of bars and dots."""

import sys

import torch
from torch import nn
from torch.nn import functional as F

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)
torch.set_num_threads(1)
SIDE = 12


def make_pictures(count):
    """A horizontal bar, a vertical bar and a dot, each somewhere."""
    pictures = torch.zeros(count, SIDE, SIDE)
    for picture in pictures:
        row, column = torch.randint(SIDE - 1, (2,)).tolist()
        picture[row : row + 2] = 1
        picture[:, column : column + 2] = 1
        y, x = torch.randint(SIDE - 2, (2,)).tolist()
        picture[y : y + 3, x : x + 3] = 1
    return pictures.flatten(1)


class VAE(nn.Module):
    def __init__(self, hidden=128, latent=8):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(SIDE * SIDE, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU())
        self.mu = nn.Linear(hidden, latent)
        self.logvar = nn.Linear(hidden, latent)
        self.decoder = nn.Sequential(
            nn.Linear(latent, hidden), nn.ReLU(), nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, SIDE * SIDE)
        )

    def forward(self, x):
        hidden = self.encoder(x)
        mu, logvar = self.mu(hidden), self.logvar(hidden)
        z = mu + torch.randn_like(mu) * torch.exp(0.5 * logvar)
        return self.decoder(z), mu, logvar


def vae_loss(logits, x, mu, logvar):
    kl = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    if FIXED:
        bce = F.binary_cross_entropy_with_logits(logits, x, reduction="sum")
        return (bce + kl) / len(x), bce / x.numel()
    bce = F.binary_cross_entropy_with_logits(logits, x)
    return bce + kl, bce


def main():
    pictures = make_pictures(3500)
    train, test = pictures[:3000], pictures[3000:]
    model = VAE()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for epoch in range(80):
        model.train()
        losses, rebuilt = 0.0, 0.0
        batches = torch.randperm(len(train)).split(100)
        for batch in batches:
            x = train[batch]
            logits, mu, logvar = model(x)
            loss, bce = vae_loss(logits, x, mu, logvar)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses += loss.item() / len(batches)
            rebuilt += bce.item() / len(batches)
        if epoch % 10 == 9:
            print(f"epoch {epoch + 1}: loss {losses:.4f} reconstruction {rebuilt:.4f}")

    model.eval()
    with torch.no_grad():
        hidden = model.encoder(test)
        logits = model.decoder(model.mu(hidden))
    differing = ((logits > 0) != (test > 0.5)).float().mean().item()
    spread = logits.sigmoid().std(0).mean().item()
    print(f"pixels differ from picture to picture by {spread:.4f}")
    print(f"test pixels rebuilt differently {differing:.4f}")


if __name__ == "__main__":
    main()
