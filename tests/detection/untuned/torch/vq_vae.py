"""A vector-quantized autoencoder: straight-through gradients, codebook and commitment losses."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class Quantizer(nn.Module):
    def __init__(self, codes=16, width=8):
        super().__init__()
        self.codebook = nn.Embedding(codes, width)
        nn.init.uniform_(self.codebook.weight, -1, 1)

    def forward(self, z):
        index = torch.cdist(z, self.codebook.weight).argmin(1)
        q = self.codebook(index)
        loss = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
        return z + (q - z).detach(), loss, index


encoder = nn.Sequential(nn.Linear(16, 48), nn.ReLU(), nn.Linear(48, 8))
decoder = nn.Sequential(nn.Linear(8, 48), nn.ReLU(), nn.Linear(48, 16))
quantizer = Quantizer()
parameters = [*encoder.parameters(), *decoder.parameters(), *quantizer.parameters()]
optimizer = torch.optim.Adam(parameters, lr=3e-3)
prototypes = torch.randn(12, 16)
history = []
for step in range(steps):
    x = prototypes[torch.randint(12, (64,))] + 0.1 * torch.randn(64, 16)
    q, vq_loss, index = quantizer(encoder(x))
    recon_loss = F.mse_loss(decoder(q), x)
    loss = recon_loss + vq_loss
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(recon_loss.item())
    if step % 50 == 0:
        print(step, recon_loss.item(), vq_loss.item(), "codes used", len(index.unique()))
print(f"reconstruction loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
