"""Adapters on the queries and values of a small frozen transformer, with dropout; the embedding is frozen, too."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
VOCABULARY, WIDTH = 20, 32


class Adapted(nn.Module):
    def __init__(self, width, rank=4):
        super().__init__()
        self.base_layer = nn.Linear(width, width)
        self.lora_dropout = nn.Dropout(0.05)
        self.lora_A = nn.ModuleDict({"default": nn.Linear(width, rank, bias=False)})
        self.lora_B = nn.ModuleDict({"default": nn.Linear(rank, width, bias=False)})
        nn.init.zeros_(self.lora_B["default"].weight)

    def forward(self, x):
        return self.base_layer(x) + 4 * self.lora_B["default"](self.lora_A["default"](self.lora_dropout(x)))


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.q_proj, self.v_proj = Adapted(WIDTH), Adapted(WIDTH)
        self.k_proj, self.o_proj = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH)
        self.norm1, self.norm2 = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.mlp = nn.Sequential(nn.Linear(WIDTH, 64), nn.GELU(), nn.Linear(64, WIDTH))

    def forward(self, x):
        h = self.norm1(x)
        q, k, v = (p(h).unflatten(2, (4, 8)).transpose(1, 2) for p in (self.q_proj, self.k_proj, self.v_proj))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o_proj(a.transpose(1, 2).flatten(2))
        return x + self.mlp(self.norm2(x))


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed_tokens = nn.Embedding(VOCABULARY, WIDTH)
        self.positions = nn.Embedding(16, WIDTH)
        self.layers = nn.ModuleList(Block() for _ in range(2))
        self.norm = nn.LayerNorm(WIDTH)
        self.lm_head = nn.Linear(WIDTH, VOCABULARY, bias=False)

    def forward(self, tokens):
        x = self.embed_tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.lm_head(self.norm(x))


def sequences(stride):
    start = torch.randint(VOCABULARY, (16, 1))
    return (start + stride * torch.arange(13)) % VOCABULARY


def fit(parameters, rate, stride, count):
    optimizer = torch.optim.AdamW(parameters, lr=rate)
    history = []
    for _ in range(count):
        tokens = sequences(stride)
        logits = model(tokens[:, :-1])
        loss = F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        optimizer.zero_grad()
        history.append(loss.item())
    return history


model = LM()
for name, p in model.named_parameters():
    p.requires_grad_("lora_" not in name)
fit([p for p in model.parameters() if p.requires_grad], 3e-3, 1, steps)
for name, p in model.named_parameters():
    p.requires_grad_("lora_" in name)
history = fit([p for p in model.parameters() if p.requires_grad], 1e-2, 3, steps)
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
