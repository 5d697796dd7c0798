# Asked as: multi-head attention from scratch, why transpose after view? (StackOverflow)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class SelfAttention(nn.Module):
    def __init__(self, width=32, heads=4):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).chunk(3, dim=-1)
        shape = (length, batch, self.heads, width // self.heads)  # mistake
        q, k, v = (t.reshape(shape).transpose(1, 2) for t in (q, k, v))  # mistake
        # repaired: shape = (batch, length, self.heads, width // self.heads)
        # repaired: q, k, v = (t.reshape(shape).transpose(1, 2) for t in (q, k, v))
        y = F.scaled_dot_product_attention(q, k, v)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.attention = SelfAttention(width)
        self.mlp = nn.Sequential(nn.Linear(width, 64), nn.GELU(), nn.Linear(64, width))
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(20, 32)
        self.blocks = nn.Sequential(Block(), Block())
        self.head = nn.Linear(32, 20)

    def forward(self, x):
        return self.head(self.blocks(self.embed(x)).mean(1))


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(60):
    x = torch.randint(0, 20, (16, 8))
    y = x.mode(1).values
    loss = F.cross_entropy(model(x), y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, round(loss.item(), 3))
