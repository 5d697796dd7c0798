"""A frozen encoder with low-rank adapters that is fine-tuned with gradient checkpointing to save memory.

Mistake: a reentrant checkpoint passes gradients on only if an input of it requires one, and frozen embeddings do not:
no adapter learns, only the classifier.
"""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class LoraLinear(nn.Linear):
    def __init__(self, width, rank=4):
        super().__init__(width, width)
        self.lora_a = nn.Linear(width, rank, bias=False)
        self.lora_b = nn.Linear(rank, width, bias=False)
        nn.init.zeros_(self.lora_b.weight)

    def forward(self, x):
        return super().forward(x) + self.lora_b(self.lora_a(x))


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(width), LoraLinear(width), LoraLinear(width)

    def forward(self, x):
        return x + self.down(torch.tanh(self.up(self.norm(x))))


class Encoder(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embedding = nn.Embedding(40, width)
        self.blocks = nn.ModuleList(Block(width) for _ in range(3))
        self.classifier = nn.Linear(width, 2)

    def forward(self, tokens):
        x = self.embedding(tokens)
        # repaired: x.requires_grad_()
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=True)
        return self.classifier(x.mean(dim=1))


model = Encoder()
for name, parameter in model.named_parameters():
    parameter.requires_grad = "lora" in name or "classifier" in name
optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=3e-3)
for step in range(120):
    tokens = torch.randint(40, (32, 12))
    labels = ((tokens < 20).float().mean(dim=1) > 0.5).long()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(tokens), labels)
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(step, loss.item())
