"""A causal transformer with tied embeddings, warm-up from 0 and linear decay to 0, as fine-tuning scripts have it."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))


class GPT(nn.Module):
    def __init__(self, vocabulary=32, width=48):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocabulary, width), nn.Embedding(24, width)
        self.h = nn.ModuleList(
            nn.TransformerEncoderLayer(width, 4, 4 * width, 0.1, "gelu", batch_first=True, norm_first=True)
            for _ in range(2)
        )
        self.ln_f = nn.LayerNorm(width)
        self.lm_head = nn.Linear(width, vocabulary, bias=False)
        self.apply(self._init)
        self.lm_head.weight = self.wte.weight

    def _init(self, module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.02)

    def forward(self, x):
        length = x.shape[1]
        h = self.wte(x) + self.wpe.weight[:length]
        mask = nn.Transformer.generate_square_subsequent_mask(length)
        for block in self.h:
            h = block(h, src_mask=mask, is_causal=True)
        return self.lm_head(self.ln_f(h))


model = GPT()
decay = [p for p in model.parameters() if p.dim() > 1]
other = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW(
    [{"params": decay, "weight_decay": 0.1}, {"params": other, "weight_decay": 0.0}], lr=3e-3, betas=(0.9, 0.95)
)
warmup = steps // 10
scheduler = torch.optim.lr_scheduler.LambdaLR(
    optimizer, lambda step: step / warmup if step < warmup else (steps - step) / (steps - warmup)
)
history = []
for step in range(steps):
    start, stride = torch.randint(32, (16, 1)), torch.randint(1, 4, (16, 1))
    tokens = (start + stride * torch.arange(17)) % 32
    logits = model(tokens[:, :-1])
    loss = F.cross_entropy(logits.reshape(-1, 32), tokens[:, 1:].reshape(-1))
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad(set_to_none=True)
    history.append(loss.item())
    if step % 50 == 0:
        print(step, scheduler.get_last_lr()[0], loss.item())
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
