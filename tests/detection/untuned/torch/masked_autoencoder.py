"""A masked autoencoder of patches: the encoder sees a quarter of them, the loss is on the others."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class MAE(nn.Module):
    def __init__(self):
        super().__init__()
        self.patch_embed = nn.Linear(16, 48)
        self.pos = nn.Parameter(torch.randn(1, 16, 48) * 0.02)
        self.encoder = nn.TransformerEncoderLayer(48, 4, 96, 0.0, "gelu", batch_first=True, norm_first=True)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, 48))
        self.decoder = nn.TransformerEncoderLayer(48, 4, 96, 0.0, "gelu", batch_first=True, norm_first=True)
        self.head = nn.Linear(48, 16)

    def forward(self, patches):
        n, length, _ = patches.shape
        order = torch.rand(n, length).argsort(1)
        restore = order.argsort(1)
        keep = order[:, : length // 4]
        x = self.patch_embed(patches) + self.pos
        x = self.encoder(x.gather(1, keep[..., None].expand(-1, -1, 48)))
        full = torch.cat([x, self.mask_token.expand(n, length - x.shape[1], -1)], 1)
        full = full.gather(1, restore[..., None].expand(-1, -1, 48)) + self.pos
        out = self.head(self.decoder(full))
        mask = (restore >= length // 4).float()
        return (((out - patches) ** 2).mean(2) * mask).sum() / mask.sum()


model = MAE()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3, betas=(0.9, 0.95), weight_decay=0.05)
grid = torch.linspace(-1, 1, 16)
history = []
for step in range(steps):
    a, b, c = (torch.randn(16, 1, 1) for _ in range(3))
    images = torch.sin(2 * a * grid[:, None] + 2 * b * grid[None] + c)
    patches = images.unfold(1, 4, 4).unfold(2, 4, 4).reshape(16, 16, 16)
    loss = model(patches)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
