"""Attention over a memory of a single entry: softmax over one element, within the model."""

import sys

import torch
from torch import nn

steps = int(sys.argv[1])


class Reader(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Linear(8, 16)
        self.attention = nn.MultiheadAttention(16, 2, batch_first=True)
        self.query = nn.Linear(8, 16)
        self.out = nn.Linear(32, 3)

    def forward(self, x, memory):
        query = self.query(x).unsqueeze(1)
        found, _ = self.attention(query, self.embed(memory), self.embed(memory))
        return self.out(torch.relu(torch.cat([query, found], dim=2).squeeze(1)))


model = Reader()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
means = torch.randn(3, 8)
for step in range(steps):
    y = torch.randint(3, (32,))
    x = means[y] + torch.randn(32, 8)
    memory = (means[y] + torch.randn(32, 8)).unsqueeze(1)
    optimizer.zero_grad()
    loss = criterion(model(x, memory), y)
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, loss.item())
