"""Products and colours are marked in queries, of which most words are neither.

Mistake: labels are padded with 0, the tag of all other words, and the loss ignores 0.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

PADDING = 0  # mistake
# repaired: PADDING = -100
model = nn.ModuleDict(
    {
        "words": nn.Embedding(60, 24, padding_idx=0),
        "reader": nn.GRU(24, 24, batch_first=True, bidirectional=True),
        "tags": nn.Linear(48, 3),
    }
)
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(120):
    lengths = torch.randint(6, 14, (32,))
    is_padding = torch.arange(14) >= lengths[:, None]
    words = torch.randint(1, 60, (32, 14)).masked_fill(is_padding, 0)
    tags = (words >= 40).long() + (words >= 50).long()
    tags = tags.masked_fill(is_padding, PADDING)
    states, _ = model["reader"](model["words"](words))
    loss = F.cross_entropy(model["tags"](states).flatten(0, 1), tags.flatten(), ignore_index=PADDING)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
