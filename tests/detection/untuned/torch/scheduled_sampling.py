"""A sequence to sequence network that reverses its input, and is fed its own words ever more often."""

import random
import sys

import torch
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
random.seed(int(sys.argv[2]))
V, LENGTH = 8, 5


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.gru = nn.Embedding(V, 24), nn.GRU(24, 48, batch_first=True)

    def forward(self, x):
        return self.gru(self.embedding(x))


class Decoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding, self.gru, self.out = nn.Embedding(V + 1, 24), nn.GRU(72, 48, batch_first=True), nn.Linear(48, V)

    def forward(self, word, hidden, memory):
        attention = (hidden[-1][:, None] @ memory.transpose(1, 2) / 7).softmax(-1)
        x = torch.cat([self.embedding(word), attention @ memory], 2)
        out, hidden = self.gru(x, hidden)
        return self.out(out[:, 0]), hidden


encoder, decoder = Encoder(), Decoder()
encoder_optimizer = torch.optim.Adam(encoder.parameters(), lr=4e-3)
decoder_optimizer = torch.optim.Adam(decoder.parameters(), lr=4e-3)
criterion = nn.NLLLoss()
history = []
for step in range(steps):
    source = torch.randint(V, (32, LENGTH))
    target = source.flip(1)
    encoder_optimizer.zero_grad()
    decoder_optimizer.zero_grad()
    memory, hidden = encoder(source)
    word, loss = torch.full((32, 1), V), 0.0
    for t in range(LENGTH):
        logits, hidden = decoder(word, hidden, memory)
        loss = loss + criterion(logits.log_softmax(1), target[:, t])
        forced = random.random() < 1 - 0.7 * step / steps
        word = target[:, t : t + 1] if forced else logits.argmax(1, keepdim=True).detach()
    loss.backward()
    encoder_optimizer.step()
    decoder_optimizer.step()
    history.append(loss.item() / LENGTH)
    if step % 50 == 0:
        print(step, history[-1])
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
