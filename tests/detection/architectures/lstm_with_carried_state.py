"""A language model that reads parallel streams of a text, and carries its state from batch to batch."""

import torch
from torch import nn

torch.manual_seed(0)
WORDS, STREAMS, LENGTH = 24, 12, 10
stream = torch.zeros(3000, dtype=torch.long)
for t in range(1, 3000):
    stream[t] = (5 * stream[t - 1] + 1) % WORDS if torch.rand(1) < 0.9 else torch.randint(0, WORDS, (1,))
data = stream[: len(stream) // STREAMS * STREAMS].view(STREAMS, -1).T.contiguous()


class RNNModel(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.drop = nn.Dropout(0.1)
        self.encoder = nn.Embedding(WORDS, width)
        self.rnn = nn.LSTM(width, width, 2, dropout=0.1)
        self.decoder = nn.Linear(width, WORDS)
        self.decoder.weight = self.encoder.weight
        nn.init.uniform_(self.encoder.weight, -0.1, 0.1)

    def forward(self, x, hidden):
        output, hidden = self.rnn(self.drop(self.encoder(x)), hidden)
        return self.decoder(self.drop(output)), hidden


model = RNNModel()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
hidden = (torch.zeros(2, STREAMS, 32), torch.zeros(2, STREAMS, 32))
for epoch in range(2):
    for i in range(0, len(data) - LENGTH - 1, LENGTH):
        hidden = tuple(h.detach() for h in hidden)
        logits, hidden = model(data[i : i + LENGTH], hidden)
        loss = nn.functional.cross_entropy(logits.view(-1, WORDS), data[i + 1 : i + 1 + LENGTH].view(-1))
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    print(epoch, loss.item())
