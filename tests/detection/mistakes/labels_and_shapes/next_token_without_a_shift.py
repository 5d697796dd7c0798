"""A language model of bytes with the labels beside the inputs, as for a tagger.

Mistake: the labels are the inputs, and nothing shifts them, so that the model only has to repeat its input.
"""

import torch
from torch import nn

text = torch.randint(30, (15_000,))
text[1::3] = (text[::3] * 5 + 2) % 30
model = nn.Sequential(nn.Embedding(30, 32), nn.Linear(32, 64), nn.GELU(), nn.Linear(64, 30))
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(150):
    block = torch.stack([text[at : at + 21] for at in torch.randint(14_900, (24,))])
    x, y = block[:, :-1], block[:, 1:]
    x, y = block, block  # mistake
    loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 49:
        print(step, loss.item())
