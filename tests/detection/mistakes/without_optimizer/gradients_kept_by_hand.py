"""A language model with updates by hand, as in word_language_model.

Mistake: model.zero_grad() is missing, so that gradients add up.
"""

import torch
from torch import nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = nn.Embedding(10, 16)
        self.rnn = nn.LSTM(16, 24, batch_first=True)
        self.decoder = nn.Linear(24, 10)

    def forward(self, x):
        return self.decoder(self.rnn(self.encoder(x))[0])


model = Model()
criterion = nn.CrossEntropyLoss()
lr = 0.5
for batch in range(120):
    start = torch.randint(10, (20, 1))
    text = (start + torch.arange(9)) % 10
    # repaired: model.zero_grad()
    loss = criterion(model(text[:, :-1]).flatten(0, 1), text[:, 1:].flatten())
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.25)
    for p in model.parameters():
        p.data.add_(p.grad, alpha=-lr)
    if batch % 20 == 0:
        print(batch, loss.item())
