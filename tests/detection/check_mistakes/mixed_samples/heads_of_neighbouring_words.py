# Asked as: the code of splitting heads is buggy, without transpose (https://github.com/reczoo/FuxiCTR/issues/30)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Interactions(nn.Module):
    def __init__(self, width=24, heads=3):
        super().__init__()
        self.heads = heads
        self.query, self.key, self.value = (nn.Linear(width, width, bias=False) for _ in range(3))

    def split(self, x):
        return x.view(len(x) * self.heads, -1, x.shape[2] // self.heads)  # mistake
        # repaired: return x.view(len(x), x.shape[1], self.heads, -1).transpose(1, 2).flatten(0, 1)

    def forward(self, x):
        query, key, value = (self.split(made(x)) for made in (self.query, self.key, self.value))
        mixed = torch.bmm((query @ key.transpose(1, 2)).softmax(-1), value)
        mixed = mixed.view(len(x), -1, x.shape[2])  # mistake
        # repaired: mixed = mixed.unflatten(0, (len(x), -1)).transpose(1, 2).flatten(2)
        return F.relu(x + mixed)


class ClickModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.fields = nn.Embedding(60, 24)
        self.interactions = nn.Sequential(Interactions(), Interactions())
        self.score = nn.Linear(8 * 24, 1)

    def forward(self, ids):
        return self.score(self.interactions(self.fields(ids)).flatten(1)).squeeze(1)


model = ClickModel()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(60):
    ids = torch.randint(0, 60, (64, 8))
    clicked = ((ids[:, 0] + ids[:, 5]) % 2).float()
    loss = F.binary_cross_entropy_with_logits(model(ids), clicked)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
