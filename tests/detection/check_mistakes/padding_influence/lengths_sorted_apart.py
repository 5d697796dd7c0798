# Asked as: pack_padded_sequence wants sorted lengths, so I sorted them (StackOverflow)
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence

torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(30, 16, padding_idx=0)
        self.gru = nn.GRU(16, 32, batch_first=True)
        self.head = nn.Linear(32, 4)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(self.embedding(x), lengths, batch_first=True, enforce_sorted=False)
        _, hidden = self.gru(packed)
        return self.head(hidden[-1])


def batch(size=24):
    sequences = [torch.randint(1, 30, (int(n),)) for n in torch.randint(3, 15, (size,))]
    labels = torch.tensor([int(s[-1]) % 4 for s in sequences])
    lengths = torch.tensor([len(s) for s in sequences])
    lengths = lengths.sort(descending=True).values  # mistake
    # repaired: lengths = torch.tensor([len(s) for s in sequences])
    return pad_sequence(sequences, batch_first=True), lengths, labels


model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(60):
    x, lengths, y = batch()
    logits = model(x, lengths)
    loss = nn.functional.cross_entropy(logits, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item(), (logits.argmax(1) == y).float().mean().item())
