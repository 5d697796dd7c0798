# Asked as: VQ-VAE with EMA codebook, reconstructions are noise after loading the checkpoint (GitHub issues)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Quantizer(nn.Module):
    def __init__(self, codes=12, width=6):
        super().__init__()
        codebook = torch.randn(codes, width) * 0.5
        self.codebook = codebook  # mistake
        # repaired: self.register_buffer("codebook", codebook)

    def forward(self, z):
        index = torch.cdist(z, self.codebook).argmin(1)
        q = self.codebook[index]
        if self.training:
            with torch.no_grad():
                for k in index.unique().tolist():
                    self.codebook[k] = 0.9 * self.codebook[k] + 0.1 * z[index == k].mean(0)
        return z + (q - z).detach(), F.mse_loss(z, q.detach())


class VQVAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 6))
        self.quantize = Quantizer()
        self.decoder = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 16))

    def forward(self, x):
        q, commitment = self.quantize(self.encoder(x))
        return self.decoder(q), commitment


model = VQVAE()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
prototypes = torch.randn(8, 16)
for step in range(50):
    x = prototypes[torch.randint(0, 8, (32,))] + 0.1 * torch.randn(32, 16)
    reconstruction, commitment = model(x)
    loss = F.mse_loss(reconstruction, x) + 0.25 * commitment
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
torch.save(model.state_dict(), "vqvae.pt")
