"""A tagger of words, validated in batches after each epoch.

Mistake: torch.no_grad() without model.eval(), so that dropout disturbs the validation.
"""

import torch
import torch.nn as nn
from torch.utils.data import DataLoader, TensorDataset


class Tagger(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(40, 16)
        self.drop = nn.Dropout(0.5)
        self.lstm = nn.LSTM(16, 20, batch_first=True)
        self.tag = nn.Linear(20, 4)

    def forward(self, words):
        return self.tag(self.drop(self.lstm(self.drop(self.embed(words)))[0]))


def loader(n, shuffle):
    words = torch.randint(40, (n, 6))
    return DataLoader(TensorDataset(words, words % 4), batch_size=20, shuffle=shuffle)


train, valid = loader(480, True), loader(320, False)
model, criterion = Tagger(), nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for epoch in range(4):
    model.train()
    for words, tags in train:
        optimizer.zero_grad()
        loss = criterion(model(words).transpose(1, 2), tags)
        loss.backward()
        optimizer.step()
    # repaired: model.eval()
    total = 0.0
    with torch.no_grad():
        for words, tags in valid:
            total += criterion(model(words).transpose(1, 2), tags).item()
    print(epoch, loss.item(), total / len(valid))
