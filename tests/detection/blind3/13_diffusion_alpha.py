"""A small diffusion model of points on two moons."""

import math
import sys

import torch
import torch.nn.functional as F
from torch import nn

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)
STEPS = 50


def moons(n, generator):
    angle = math.pi * torch.rand(n, generator=generator)
    upper = torch.rand(n, generator=generator) < 0.5
    x = torch.where(upper, angle.cos(), 1 - angle.cos()) - 0.5
    y = torch.where(upper, angle.sin(), 0.5 - angle.sin()) - 0.25
    return torch.stack([x, y], 1) + 0.05 * torch.randn(n, 2, generator=generator)


class Denoiser(nn.Module):
    def __init__(self):
        super().__init__()
        self.time = nn.Embedding(STEPS, 32)
        self.net = nn.Sequential(
            nn.Linear(34, 96), nn.SiLU(), nn.Linear(96, 96), nn.SiLU(), nn.Linear(96, 96), nn.SiLU(), nn.Linear(96, 2)
        )

    def forward(self, x, t):
        return self.net(torch.cat([x, self.time(t)], 1))


class Diffusion:
    def __init__(self):
        self.betas = torch.linspace(1e-3, 0.15, STEPS)
        self.alphas = 1 - self.betas
        self.alphas_cumprod = self.alphas.cumprod(0)

    def q_sample(self, x0, t, noise):
        alpha = self.alphas_cumprod[t] if FIXED else self.alphas[t]
        return alpha.sqrt()[:, None] * x0 + (1 - alpha).sqrt()[:, None] * noise

    @torch.no_grad()
    def sample(self, model, n, generator):
        x = torch.randn(n, 2, generator=generator)
        for t in reversed(range(STEPS)):
            noise = model(x, torch.full((n,), t))
            x = (x - self.betas[t] / (1 - self.alphas_cumprod[t]).sqrt() * noise) / self.alphas[t].sqrt()
            if t > 0:
                x = x + self.betas[t].sqrt() * torch.randn(n, 2, generator=generator)
        return x


def main():
    generator = torch.Generator().manual_seed(0)
    data = moons(2000, generator)
    model, diffusion = Denoiser(), Diffusion()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(1500):
        x0 = data[torch.randint(0, len(data), (128,))]
        t = torch.randint(0, STEPS, (128,))
        noise = torch.randn_like(x0)
        loss = F.mse_loss(model(diffusion.q_sample(x0, t, noise), t), noise)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 300 == 0:
            print(f"step {step}  loss {loss.item():.3f}")
    model.eval()
    samples = diffusion.sample(model, 500, generator)
    test = moons(500, generator)
    energy = (
        2 * torch.cdist(samples, test).mean() - torch.cdist(samples, samples).mean() - torch.cdist(test, test).mean()
    )
    print(f"energy distance of the samples to the data {energy.item():.4f}")


if __name__ == "__main__":
    main()
