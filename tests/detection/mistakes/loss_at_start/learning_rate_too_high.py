"""A character model.

Mistake: Adam with a learning rate of 1, copied from an example for Adadelta.
"""

import torch
from torch import nn


class CharRNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.emb = nn.Embedding(14, 12)
        self.rnn = nn.RNN(12, 32, batch_first=True)
        self.out = nn.Linear(32, 14)

    def forward(self, x):
        return self.out(self.rnn(self.emb(x))[0])


model = CharRNN()
optimizer = torch.optim.Adam(model.parameters(), lr=1.0)  # mistake
# repaired: optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss()
for step in range(150):
    start = torch.randint(14, (20, 1))
    text = (start + torch.randint(1, 4, (20, 1)) * torch.arange(9)) % 14
    logits = model(text[:, :-1])
    loss = criterion(logits.flatten(0, 1), text[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 25 == 0:
        print(step, loss.item())
