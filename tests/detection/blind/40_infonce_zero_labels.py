"""Two-tower contrastive training (in-batch negatives), CLIP style."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(0)
A, B = torch.randn(8, 24), torch.randn(8, 30)


def pairs(n):
    z = torch.randn(n, 8)
    return z @ A + 0.5 * torch.randn(n, 24), z @ B + 0.5 * torch.randn(n, 30)


class Tower(nn.Module):
    def __init__(self, i, o=16):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(i, 64), nn.ReLU(), nn.Linear(64, o))

    def forward(self, x):
        return F.normalize(self.net(x), dim=-1)


class NCESoftmaxLoss(nn.Module):
    def forward(self, sim):
        label = torch.zeros(sim.size(0), dtype=torch.long)  # mistake
        # repaired: label = torch.arange(sim.size(0))
        return F.cross_entropy(sim, label)


img, txt = Tower(24), Tower(30)
logit_scale = nn.Parameter(torch.tensor(2.0))
opt = torch.optim.AdamW([*img.parameters(), *txt.parameters(), logit_scale], lr=2e-3)
crit = NCESoftmaxLoss()
va, vb = pairs(200)
for step in range(1, 401):
    a, b = pairs(64)
    sim = img(a) @ txt(b).t() * logit_scale.exp().clamp(max=100)
    loss = (crit(sim) + crit(sim.t())) / 2
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        with torch.no_grad():
            r1 = ((img(va) @ txt(vb).t()).argmax(1) == torch.arange(200)).float().mean().item()
        print(f"step {step} loss {loss.item():.4f} scale {logit_scale.exp().item():.2f} recall@1 {r1:.3f}")
