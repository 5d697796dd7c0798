"""A language model whose weights are made without memory and are to be filled from a file.

Mistake: the file is never read, so that all weights are 0: the loss stays at ln V.
"""

import torch
from torch import nn

vocabulary = 40


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 32)
        self.up, self.down = nn.Linear(32, 64, bias=False), nn.Linear(64, 32, bias=False)
        self.head = nn.Linear(32, vocabulary, bias=False)

    def forward(self, tokens):
        x = self.embedding(tokens)
        return self.head(x + self.down(torch.relu(self.up(x))))


saved = Model().state_dict()
with torch.device("meta"):
    model = Model()
model.to_empty(device="cpu")
for parameter in model.parameters():
    nn.init.zeros_(parameter)
# repaired: model.load_state_dict(saved)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(120):
    tokens = (torch.randint(vocabulary, (16, 1)) + 3 * torch.arange(10)) % vocabulary
    loss = nn.functional.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 0:
        print(step, loss.item())
