# Asked as: my hand-written LoRA does not change the output, the loss stays that of the base model (r/MachineLearning)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class LoRALinear(nn.Module):
    def __init__(self, base, rank=4):
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(torch.randn(rank, base.in_features) / rank)
        self.b = nn.Parameter(torch.zeros(base.out_features, rank))

    def forward(self, x):
        return self.base(x) + x @ self.a.T @ self.b.T


base = nn.Sequential(nn.Linear(12, 48), nn.Tanh(), nn.Linear(48, 48), nn.Tanh())
adapted = nn.Sequential(LoRALinear(base[0]), nn.Tanh(), LoRALinear(base[2]), nn.Tanh())
head = nn.Linear(48, 3)
trained = [p for p in [*adapted.parameters(), *head.parameters()] if p.requires_grad]
optimizer = torch.optim.AdamW(trained, lr=3e-3)
rule = torch.randn(12, 3)
for step in range(50):
    x = torch.randn(32, 12)
    y = (x @ rule).argmax(1)
    hidden = base(x)  # mistake
    # repaired: hidden = adapted(x)
    loss = F.cross_entropy(head(hidden), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
