"""Next-token prediction with an LSTM.

Mistake: softmax over the vocabulary before CrossEntropyLoss.
"""

import torch
from torch import nn


class LanguageModel(nn.Module):
    def __init__(self, vocab_size=12):
        super().__init__()
        self.embed = nn.Embedding(vocab_size, 16)
        self.lstm = nn.LSTM(16, 32, batch_first=True)
        self.decoder = nn.Linear(32, vocab_size)
        self.softmax = nn.Softmax(dim=2)

    def forward(self, x):
        output, _ = self.lstm(self.embed(x))
        output = self.decoder(output)
        return self.softmax(output)  # mistake
        # repaired: return output


model = LanguageModel()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(100):
    first = torch.randint(12, (16, 1))
    stride = torch.randint(1, 3, (16, 1))
    tokens = (first + stride * torch.arange(11)) % 12
    out = model(tokens[:, :-1])
    loss = criterion(out.reshape(-1, 12), tokens[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
