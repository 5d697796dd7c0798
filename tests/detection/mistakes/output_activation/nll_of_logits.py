"""Classification of short sequences with a GRU.

Mistake: NLLLoss of logits, without log_softmax.
"""

import torch
from torch import nn


class SequenceClassifier(nn.Module):
    def __init__(self, vocabulary=20, hidden=32, classes=4):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 16)
        self.gru = nn.GRU(16, hidden, batch_first=True)
        self.fc = nn.Linear(hidden, classes)

    def forward(self, tokens):
        _, h = self.gru(self.embedding(tokens))
        return self.fc(h[-1])  # mistake
        # repaired: return torch.log_softmax(self.fc(h[-1]), dim=1)


model = SequenceClassifier()
criterion = nn.NLLLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
for step in range(120):
    category = torch.randint(4, (32,))
    noise = torch.randint(20, (32, 9))
    tokens = torch.where(torch.rand(32, 9) < 0.5, category.unsqueeze(1) * 5 + noise % 5, noise)
    optimizer.zero_grad()
    loss = criterion(model(tokens), category)
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
