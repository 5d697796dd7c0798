"""A classifier that continues from its last weights.

Mistake: model.eval() was copied with the code that loads the weights, and the training runs in evaluation mode.
"""

import io

import torch
from torch import nn


def build():
    return nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Dropout(0.5), nn.Linear(64, 4))


file = io.BytesIO()
torch.save(build().state_dict(), file)
file.seek(0)
model = build()
model.load_state_dict(torch.load(file))
model.eval()  # mistake
# repaired: model.train()
centres = torch.randn(4, 16)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(150):
    labels = torch.randint(4, (32,))
    loss = nn.functional.cross_entropy(model(centres[labels] + torch.randn(32, 16)), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 0:
        print(step, loss.item())
