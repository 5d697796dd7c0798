# Asked as: sorting the batch by length in collate_fn, but not the labels (PyTorch forums)
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_sequence
from torch.utils.data import DataLoader

torch.manual_seed(0)
samples = []
for _ in range(512):
    sequence = torch.randint(2, 20, (int(torch.randint(3, 14, (1,))),))
    samples.append((sequence, int(sequence[-1]) % 3))


def collate(batch):
    ordered = sorted(batch, key=lambda pair: len(pair[0]), reverse=True)
    sequences = [sequence for sequence, _ in ordered]
    labels = torch.tensor([label for _, label in batch])  # mistake
    # repaired: labels = torch.tensor([label for _, label in ordered])
    return pad_sequence(sequences, batch_first=True), torch.tensor([len(s) for s in sequences]), labels


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.lstm = nn.Embedding(20, 16), nn.LSTM(16, 32, batch_first=True)
        self.fc = nn.Linear(32, 3)

    def forward(self, x, lengths):
        _, (h, _) = self.lstm(pack_padded_sequence(self.embed(x), lengths, batch_first=True))
        return self.fc(h[-1])


model = Reader()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for epoch in range(4):
    for x, lengths, y in DataLoader(samples, batch_size=32, shuffle=True, collate_fn=collate):
        loss = nn.functional.cross_entropy(model(x, lengths), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
