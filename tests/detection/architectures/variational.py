"""A variational autoencoder of binary pictures, with reparametrization."""

import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class VAE(nn.Module):
    def __init__(self, latent=4):
        super().__init__()
        self.encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Linear(48, 2 * latent))
        self.decoder = nn.Sequential(nn.Linear(latent, 48), nn.ReLU(), nn.Linear(48, 64))

    def forward(self, x):
        mean, log_variance = self.encoder(x).chunk(2, dim=1)
        z = mean + torch.randn_like(mean) * torch.exp(0.5 * log_variance)
        return self.decoder(z), mean, log_variance


model = VAE()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
prototypes = (torch.rand(6, 64) < 0.4).float()
for step in range(60):
    x = (prototypes[torch.randint(0, 6, (32,))] + (torch.rand(32, 64) < 0.05)) % 2
    x = x.view(32, 1, 8, 8)
    logits, mean, log_variance = model(x)
    bce = F.binary_cross_entropy_with_logits(logits, x.flatten(1), reduction="sum")
    kld = -0.5 * torch.sum(1 + log_variance - mean.pow(2) - log_variance.exp())
    loss = (bce + kld) / len(x)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
