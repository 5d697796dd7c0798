"""A tagger of sentences of different lengths, padded to the longest of the batch.

Mistake: the tags of the padding are 0, which is a tag, so that most of what the loss counts is padding.
"""

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

tag_of = torch.randint(5, (200,))
sentences = [torch.randint(1, 200, (int(length),)) for length in torch.randint(4, 40, (400,))]


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(200, 32, padding_idx=0)
        self.rnn = nn.LSTM(32, 32, batch_first=True, bidirectional=True)
        self.head = nn.Linear(64, 5)

    def forward(self, x):
        return self.head(self.rnn(self.words(x))[0])


model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
criterion = nn.CrossEntropyLoss()
for epoch in range(6):
    for index in torch.randperm(400).split(20):
        batch = [sentences[i] for i in index]
        words = pad_sequence(batch, batch_first=True)
        tags = pad_sequence([tag_of[sentence] for sentence in batch], batch_first=True)  # mistake
        # repaired: tags = pad_sequence([tag_of[sentence] for sentence in batch], batch_first=True, padding_value=-100)
        loss = criterion(model(words).transpose(1, 2), tags)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
