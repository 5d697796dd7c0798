"""A small language model that computes its own loss, with an evaluation every 25 steps, as in nanoGPT.

Mistake: softmax before cross_entropy within forward().
"""

import torch
from torch import nn
from torch.nn import functional as F


class TinyModel(nn.Module):
    def __init__(self, vocabulary, width):
        super().__init__()
        self.wte = nn.Embedding(vocabulary, width)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.ln = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)

    def forward(self, idx, targets=None):
        x = self.wte(idx)
        logits = self.lm_head(self.ln(x + self.mlp(x)))
        logits = torch.softmax(logits, dim=-1)  # mistake
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), targets.reshape(-1))
        return logits, loss


@torch.no_grad()
def estimate_loss():
    model.eval()
    losses = torch.zeros(5)
    for k in range(5):
        _, loss = model(*get_batch())
        losses[k] = loss.item()
    model.train()
    return losses.mean()


def get_batch():
    text = (torch.randint(16, (16, 1)) + 3 * torch.arange(13)) % 16
    return text[:, :-1], text[:, 1:]


model = TinyModel(16, 24)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(150):
    if step % 25 == 0:
        print(f"step {step}: val loss {estimate_loss():.4f}")
    logits, loss = model(*get_batch())
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    optimizer.step()
