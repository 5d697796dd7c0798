"""Names of three languages, read letter by letter.

Mistake: gradients are clipped to a norm of 1e-6.
"""

import torch
from torch import nn
from torch.nn import functional as F


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.letters = nn.Embedding(20, 12)
        self.rnn = nn.GRU(12, 24, batch_first=True)
        self.language = nn.Linear(24, 3)

    def forward(self, names):
        return self.language(self.rnn(self.letters(names))[1][0])


LIMIT = 1e-6  # mistake
# repaired: LIMIT = 5.0
model = Reader()
optimizer = torch.optim.SGD(model.parameters(), lr=0.2, momentum=0.9)
for step in range(240):
    language = torch.randint(3, (32,))
    names = (torch.randint(8, (32, 7)) + 6 * language.unsqueeze(1)) % 20
    loss = F.cross_entropy(model(names), language)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), LIMIT)
    optimizer.step()
    if step % 40 == 0:
        print(step, loss.item())
