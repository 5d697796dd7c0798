"""LoRA (peft) on a small frozen transformer with activation checkpointing; the new head is trained fully."""

import torch
import torch.nn as nn
import torch.nn.functional as F
from peft import LoraConfig, get_peft_model
from torch.utils.checkpoint import checkpoint

torch.set_num_threads(1)
torch.manual_seed(0)
V, D, L = 20, 32, 10


class Layer(nn.Module):
    def __init__(self):
        super().__init__()
        self.qkv, self.proj = nn.Linear(D, 3 * D), nn.Linear(D, D)
        self.fc1, self.fc2 = nn.Linear(D, 64), nn.Linear(64, D)
        self.n1, self.n2 = nn.LayerNorm(D), nn.LayerNorm(D)

    def forward(self, x):
        q, k, v = self.qkv(self.n1(x)).chunk(3, -1)
        x = x + self.proj(F.scaled_dot_product_attention(q, k, v))
        return x + self.fc2(F.gelu(self.fc1(self.n2(x))))


class Backbone(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb, self.pos = nn.Embedding(V, D), nn.Embedding(L, D)
        self.layers = nn.ModuleList(Layer() for _ in range(2))
        self.head = nn.Linear(D, 2)
        self.input_require_grads = False

    def require_input_grads(self):
        self.input_require_grads = True

    def forward(self, x):
        h = self.emb(x) + self.pos(torch.arange(L))
        if self.input_require_grads and not h.requires_grad:
            h.requires_grad_(True)
        for lay in self.layers:
            h = checkpoint(lay, h, use_reentrant=True) if self.training else lay(h)
        return self.head(h.mean(1))


def data(n):
    x = torch.randint(0, V, (n, L))
    return x, ((x[:, :5] < 7).sum(1) > (x[:, 5:] < 7).sum(1)).long()


base = Backbone()
model = get_peft_model(
    base, LoraConfig(r=8, lora_alpha=32, target_modules=["qkv", "proj", "fc1", "fc2"], modules_to_save=["head"])
)
model.print_trainable_parameters()
# repaired: base.require_input_grads()
opt = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=5e-3)
xv, yv = data(500)
for step in range(1, 201):
    model.train()
    x, y = data(64)
    loss = F.cross_entropy(model(x), y)
    opt.zero_grad()
    loss.backward()
    opt.step()
    if step % 50 == 0:
        model.eval()
        with torch.no_grad():
            acc = (model(xv).argmax(1) == yv).float().mean()
        print(f"step {step} loss {loss.item():.4f} val acc {acc:.3f}")
