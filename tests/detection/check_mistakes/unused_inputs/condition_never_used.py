# Asked as: my conditional VAE ignores the digit that I ask for (StackOverflow)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
patterns = torch.rand(4, 36).round()


class ConditionalVAE(nn.Module):
    def __init__(self, classes=4, latent=3):
        super().__init__()
        self.label = nn.Embedding(classes, 8)
        self.encoder = nn.Sequential(nn.Linear(36 + 8, 48), nn.ReLU())
        self.mean, self.log_variance = nn.Linear(48, latent), nn.Linear(48, latent)
        self.decoder = nn.Sequential(nn.Linear(latent + 8, 48), nn.ReLU(), nn.Linear(48, 36))

    def forward(self, x, y):
        c = self.label(y)
        c = torch.zeros_like(c)  # mistake
        # repaired: c = self.label(y)
        h = self.encoder(torch.cat([x, c], dim=1))
        mean, log_variance = self.mean(h), self.log_variance(h)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        return self.decoder(torch.cat([z, c], dim=1)), mean, log_variance


model = ConditionalVAE()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(60):
    y = torch.randint(0, 4, (32,))
    x = (patterns[y] + (torch.rand(32, 36) < 0.05)) % 2
    logits, mean, log_variance = model(x, y)
    reconstruction = F.binary_cross_entropy_with_logits(logits, x, reduction="sum") / 32
    kl = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum(1).mean()
    loss = reconstruction + kl
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, reconstruction.item(), kl.item())
