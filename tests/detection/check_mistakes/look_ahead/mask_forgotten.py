# Asked as: loss of my small GPT falls to zero at once, and it generates garbage (r/MachineLearning, nanoGPT issues)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
text = "the quick brown fox jumps over the lazy dog and runs away from the old bear in the wood. " * 20
chars = sorted(set(text))
data = torch.tensor([chars.index(c) for c in text])
BLOCK, WIDTH = 16, 32


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv = nn.Linear(WIDTH, 3 * WIDTH)
        self.proj = nn.Linear(WIDTH, WIDTH)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, 4, c // 4).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v)  # mistake
        # repaired: y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.attention = Attention()
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 4 * WIDTH), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH))

    def forward(self, x):
        x = x + self.attention(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(len(chars), WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.blocks = nn.Sequential(Block(), Block())
        self.norm, self.head = nn.LayerNorm(WIDTH), nn.Linear(WIDTH, len(chars), bias=False)

    def forward(self, idx, targets):
        x = self.tokens(idx) + self.positions(torch.arange(idx.shape[1]))
        logits = self.head(self.norm(self.blocks(x)))
        return logits, F.cross_entropy(logits.view(-1, len(chars)), targets.view(-1))


def get_batch(size=16):
    starts = torch.randint(len(data) - BLOCK - 1, (size,))
    x = torch.stack([data[i : i + BLOCK] for i in starts])
    return x, torch.stack([data[i + 1 : i + 1 + BLOCK] for i in starts])


model = GPT()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(60):
    x, y = get_batch()
    logits, loss = model(x, y)
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
