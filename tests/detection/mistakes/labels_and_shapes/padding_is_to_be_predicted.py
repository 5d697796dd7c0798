"""A model of names, letter by letter, padded at the end.

Mistake: the loss is not told which letter is padding.
"""

import torch
import torch.nn.functional as F
from torch import nn

PADDING, END = 0, 27
names = torch.full((500, 24), PADDING)
for row in names:
    length = int(torch.randint(4, 16, ()))
    row[:length] = 1 + (torch.randint(26, ()) + 3 * torch.arange(length)) % 26
    row[length] = END


class Letters(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(28, 24, padding_idx=PADDING)
        self.rnn, self.head = nn.GRU(24, 48, batch_first=True), nn.Linear(48, 28)

    def forward(self, x):
        return self.head(self.rnn(self.embedding(x))[0])


model = Letters()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for epoch in range(6):
    for index in torch.randperm(500).split(25):
        x, y = names[index, :-1], names[index, 1:]
        logits = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())  # mistake
        # repaired: loss = F.cross_entropy(logits.flatten(0, 1), y.flatten(), ignore_index=PADDING)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
