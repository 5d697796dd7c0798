"""Images between 0 and 1 in the manner of pytorch/examples/vae, with the cross entropy written out."""

import sys

import torch
from torch import nn, optim
from torch.nn import functional as F

steps = int(sys.argv[1])


class VAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = nn.Linear(100, 64)
        self.fc21 = nn.Linear(64, 5)
        self.fc22 = nn.Linear(64, 5)
        self.fc3 = nn.Linear(5, 64)
        self.fc4 = nn.Linear(64, 100)

    def encode(self, x):
        h1 = F.relu(self.fc1(x))
        return self.fc21(h1), self.fc22(h1)

    def reparameterize(self, mu, logvar):
        std = torch.exp(0.5 * logvar)
        return mu + torch.randn_like(std) * std

    def decode(self, z):
        h3 = F.relu(self.fc3(z))
        return torch.sigmoid(self.fc4(h3))

    def forward(self, x):
        mu, logvar = self.encode(x.view(-1, 100))
        z = self.reparameterize(mu, logvar)
        return self.decode(z), mu, logvar


def loss_function(recon_x, x, mu, logvar):
    p = recon_x.clamp(1e-6, 1 - 1e-6)
    BCE = -torch.sum(x * torch.log(p) + (1 - x) * torch.log(1 - p))
    KLD = -0.5 * torch.sum(1 + logvar - mu.pow(2) - logvar.exp())
    return BCE + KLD


strokes = (torch.rand(8, 100) < 0.25).float()
model = VAE()
optimizer = optim.Adam(model.parameters(), lr=1e-3)
model.train()
train_loss = 0
for batch_idx in range(steps):
    data = strokes[torch.randint(8, (64,))].view(64, 1, 10, 10)
    optimizer.zero_grad()
    recon_batch, mu, logvar = model(data)
    loss = loss_function(recon_batch, data.view(-1, 100), mu, logvar)
    loss.backward()
    train_loss += loss.item()
    optimizer.step()
    if batch_idx % 20 == 0:
        print(f"[{batch_idx}] Loss: {loss.item() / len(data):.6f}")
