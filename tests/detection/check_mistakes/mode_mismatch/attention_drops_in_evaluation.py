# Asked as: SDPA does not switch off dropout during evaluation (https://github.com/pytorch/pytorch/issues/124464)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self, width, heads, p):
        super().__init__()
        self.heads, self.p = heads, p
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        q, k, v = (part.unflatten(-1, (self.heads, -1)).transpose(1, 2) for part in self.qkv(x).chunk(3, -1))
        mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p)  # mistake
        # repaired: mixed = F.scaled_dot_product_attention(q, k, v, dropout_p=self.p if self.training else 0.0)
        return self.out(mixed.transpose(1, 2).flatten(2))


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.attention, self.tag = nn.Embedding(30, 32), Attention(32, 4, 0.2), nn.Linear(32, 2)

    def forward(self, ids):
        x = self.words(ids)
        return self.tag(x + self.attention(x))


model = Tagger()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(60):
    model.train()
    ids = torch.randint(0, 30, (32, 10))
    tags = (ids == ids[:, :1]).long()
    loss = F.cross_entropy(model(ids).flatten(0, 1), tags.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 19:
        model.eval()
        with torch.no_grad():
            print(step, loss.item(), (model(ids).argmax(-1) == tags).float().mean().item())
