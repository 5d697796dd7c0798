"""Answers to prompts, predicted token by token; prompt and answer together are cut at a length.

Mistake: the data are sorted by length, so that from some step on nothing but prompt is left, and no token has a loss.
"""

import torch
from torch import nn

import leadline

LENGTH, COUNT = 24, 9600


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.recurrent = nn.Embedding(20, 24), nn.GRU(24, 48, batch_first=True)
        self.head = nn.Linear(48, 20)

    def forward(self, tokens):
        return self.head(self.recurrent(self.embedding(tokens))[0])


def sample(length):
    prompt = torch.randint(1, 20, (length,))
    tokens = torch.cat([prompt, prompt[:1].repeat(6)])
    mask = torch.cat([torch.zeros(length), torch.ones(6)])
    padded = torch.zeros(2, LENGTH)
    padded[0, : len(tokens)], padded[1, : len(tokens)] = tokens[:LENGTH].float(), mask[:LENGTH]
    return padded


lengths = torch.randint(4, 40, (COUNT,))
lengths = lengths.sort().values  # mistake
# repaired: lengths = lengths[lengths <= LENGTH - 6]
model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for start in range(0, len(lengths) - 31, 32):
    batch = torch.stack([sample(int(length)) for length in lengths[start : start + 32]])
    tokens, mask = batch[:, 0].long(), batch[:, 1]
    logs = model(tokens[:, :-1]).log_softmax(2).gather(2, tokens[:, 1:, None])[..., 0]
    loss = -(logs * mask[:, 1:]).sum() / mask[:, 1:].sum().clamp(min=1)
    optimizer.zero_grad()
    loss.backward()
    norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    leadline.log(loss=round(loss.item(), 4), grad_norm=norm.item())
