# Asked as: does bidirectional=True make my LSTM language model better? perplexity is suddenly 1.1 (StackOverflow)
import torch
from torch import nn

torch.manual_seed(0)
WORDS = 28


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(WORDS, 24)
        self.rnn = nn.LSTM(24, 32, batch_first=True, bidirectional=True)  # mistake
        self.out = nn.Linear(64, WORDS)  # mistake
        # repaired: self.rnn = nn.LSTM(24, 32, batch_first=True)
        # repaired: self.out = nn.Linear(32, WORDS)

    def forward(self, x):
        h, _ = self.rnn(self.embed(x))
        return self.out(h)


stream = torch.randint(0, WORDS, (2000,))
stream[1::2] = (stream[::2] * 3 + 1) % WORDS
model = LM()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
criterion = nn.CrossEntropyLoss()
for step in range(60):
    starts = torch.randint(0, len(stream) - 16, (20,))
    x = torch.stack([stream[s : s + 15] for s in starts])
    y = torch.stack([stream[s + 1 : s + 16] for s in starts])
    logits = model(x)
    loss = criterion(logits.reshape(-1, WORDS), y.reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, "perplexity", loss.exp().item())
