"""The parameters are pixels: a picture is changed until a fixed network sees in it what it sees in two others."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
vision = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Conv2d(16, 24, 3, padding=1), nn.ReLU()
)
vision.eval().requires_grad_(False)
grid = torch.linspace(0, 6, 16)
content = (torch.sin(grid)[:, None] * torch.cos(grid) * 0.5 + 0.5).expand(1, 3, 16, 16).clone()
style = torch.rand(1, 3, 16, 16)


def gram(f):
    f = f.flatten(2)[0]
    return f @ f.T / f.numel()


with torch.no_grad():
    f_content, g_style = vision(content), gram(vision(style))
picture = torch.rand(1, 3, 16, 16).requires_grad_()
optimizer = torch.optim.Adam([picture], lr=0.02)
history = []
for step in range(steps):
    f = vision(picture)
    smooth = (picture[..., 1:] - picture[..., :-1]).abs().mean()
    loss = F.mse_loss(f, f_content) + 100 * F.mse_loss(gram(f), g_style) + 0.01 * smooth
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        picture.clamp_(0, 1)
    history.append(loss.item())
    if step % 50 == 0:
        print(step, loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
