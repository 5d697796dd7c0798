"""License plates, read column by column with CTC; characters are numbered from 1.

Mistake: the blank is set to the last class, which is a character.
"""

import torch
from torch import nn
from torch.nn import functional as F

CHARACTERS = 6
looks = torch.randn(CHARACTERS + 1, 10)


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.rnn = nn.GRU(10, 24, batch_first=True, bidirectional=True)
        self.out = nn.Linear(48, CHARACTERS + 1)

    def forward(self, columns):
        return F.log_softmax(self.out(self.rnn(columns)[0]), dim=-1)


model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(120):
    sizes = torch.randint(2, 6, (12,))
    plates = [torch.randint(1, CHARACTERS + 1, (int(size),)) for size in sizes]
    columns = 0.3 * torch.randn(12, 15, 10)
    for row, plate in enumerate(plates):
        columns[row, : 3 * len(plate)] += looks[plate].repeat_interleave(3, dim=0)
    scores = model(columns).transpose(0, 1)
    blank = CHARACTERS  # mistake
    # repaired: blank = 0
    loss = F.ctc_loss(scores, torch.cat(plates), torch.full((12,), 15), sizes, blank=blank, zero_infinity=True)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 0:
        print(step, loss.item())
