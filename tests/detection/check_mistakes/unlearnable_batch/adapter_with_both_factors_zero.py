# Asked as: LoRA loss does not move, both matrices were initialized with zeros (peft issues)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class LowRank(nn.Module):
    def __init__(self, layer, rank=8, alpha=16):
        super().__init__()
        self.layer = layer
        self.down = nn.Linear(layer.in_features, rank, bias=False)
        self.up = nn.Linear(rank, layer.out_features, bias=False)
        nn.init.zeros_(self.down.weight)  # mistake
        # repaired: nn.init.kaiming_uniform_(self.down.weight, a=5**0.5)
        nn.init.zeros_(self.up.weight)
        self.scale = alpha / rank

    def forward(self, x):
        return self.layer(x) + self.scale * self.up(self.down(x))


pretrained = nn.Sequential(nn.Linear(10, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
pretrained.requires_grad_(False)
for i in (0, 2, 4):
    pretrained[i] = LowRank(pretrained[i])
optimizer = torch.optim.AdamW([p for p in pretrained.parameters() if p.requires_grad], lr=1e-2)
concept = torch.randn(10, 4)
for step in range(60):
    x = torch.randn(32, 10)
    y = (x @ concept).argmax(1)
    loss = F.cross_entropy(pretrained(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
