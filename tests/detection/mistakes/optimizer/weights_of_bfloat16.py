"""A small transformer that is trained in bfloat16 to save memory.

Mistake: the weights are of bfloat16, too: an update of less than half of a weight's last bit is rounded away, and the
weights of 1 of the normalizations never change.
"""

import torch
from torch import nn

# repaired: half = torch.autocast("cpu", dtype=torch.bfloat16)
vocabulary, width = 30, 32
layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True, norm_first=True)
model = nn.Sequential(
    nn.Embedding(vocabulary, width),
    nn.TransformerEncoder(layer, 2, nn.LayerNorm(width), enable_nested_tensor=False),
    nn.Linear(width, 4),
)
model = model.to(torch.bfloat16)  # mistake
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-4, weight_decay=0.0)
for step in range(120):
    labels = torch.randint(4, (16,))
    tokens = torch.randint(vocabulary, (16, 10))
    tokens[:, :3] = 5 * labels[:, None] + torch.arange(3)
    logits = model(tokens)[:, 0]  # mistake
    # repaired: with half:
    # repaired:     logits = model(tokens)[:, 0]
    loss = nn.functional.cross_entropy(logits.float(), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(step, loss.item())
