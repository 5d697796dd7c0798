"""A character-level GPT in the manner of nanoGPT, of the size that it recommends for a CPU."""

import math

import torch
from torch import nn
from torch.nn import functional as F

BATCH, BLOCK, LAYERS, HEADS, WIDTH, CHARACTERS = 12, 64, 4, 4, 128, 65


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.c_attn, self.c_proj = nn.Linear(WIDTH, 3 * WIDTH, bias=False), nn.Linear(WIDTH, WIDTH, bias=False)

    def forward(self, x):
        size, length, _ = x.shape
        q, k, v = (
            part.view(size, length, HEADS, WIDTH // HEADS).transpose(1, 2)
            for part in self.c_attn(x).split(WIDTH, dim=2)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.c_proj(y.transpose(1, 2).contiguous().view(size, length, WIDTH))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.ln_1, self.attn, self.ln_2 = nn.LayerNorm(WIDTH, bias=False), Attention(), nn.LayerNorm(WIDTH, bias=False)
        self.mlp = nn.Sequential(
            nn.Linear(WIDTH, 4 * WIDTH, bias=False), nn.GELU(), nn.Linear(4 * WIDTH, WIDTH, bias=False)
        )

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class GPT(nn.Module):
    def __init__(self):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(CHARACTERS, WIDTH), nn.Embedding(BLOCK, WIDTH)
        self.h = nn.ModuleList(Block() for _ in range(LAYERS))
        self.ln_f, self.lm_head = nn.LayerNorm(WIDTH, bias=False), nn.Linear(WIDTH, CHARACTERS, bias=False)
        for name, parameter in self.named_parameters():
            if parameter.ndim > 1:
                deep = math.sqrt(2 * LAYERS) if name.endswith(("c_proj.weight", "mlp.2.weight")) else 1.0
                nn.init.normal_(parameter, std=0.02 / deep)
        self.wte.weight = self.lm_head.weight

    def forward(self, idx, targets=None):
        x = self.wte(idx) + self.wpe(torch.arange(idx.shape[1], device=idx.device))
        for block in self.h:
            x = block(x)
        logits = self.lm_head(self.ln_f(x))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.view(-1), ignore_index=-1)
        return logits, loss


def rate_at(step):
    return 1e-3 * (step + 1) / 101 if step < 100 else 1e-3


torch.manual_seed(1337)
text = torch.cumsum(torch.randint(1, 4, (100_000,)), 0) % CHARACTERS  # the next character is one of three
model = GPT()
decayed = [parameter for parameter in model.parameters() if parameter.ndim > 1]
others = [parameter for parameter in model.parameters() if parameter.ndim < 2]
optimizer = torch.optim.AdamW(
    [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}], lr=1e-3, betas=(0.9, 0.99)
)
for step in range(200):
    for group in optimizer.param_groups:
        group["lr"] = rate_at(step)
    starts = torch.randint(len(text) - BLOCK - 1, (BATCH,)).tolist()
    x = torch.stack([text[start : start + BLOCK] for start in starts])
    y = torch.stack([text[start + 1 : start + 1 + BLOCK] for start in starts])
    _, loss = model(x, y)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    if step % 10 == 0:
        print(f"iter {step}: loss {loss.item():.4f}")
