"""Few labels in a graph: each step is followed by an evaluation, and dropout is a function of the model's mode."""

import sys

import torch
from torch import nn
from torch.nn import functional as F

steps = int(sys.argv[1])
nodes, kinds = 160, 4
kind = torch.arange(nodes) % kinds
likely = torch.where(kind[:, None] == kind, 0.15, 0.01)
edges = torch.triu(torch.rand(nodes, nodes) < likely, 1).float()
edges = edges + edges.T + torch.eye(nodes)
edges = edges / edges.sum(1, keepdim=True)
features = torch.randn(nodes, 12) + 0.5 * F.one_hot(kind, 12).float()
labelled, held_out = torch.randperm(nodes).split([40, 120])


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(12, 24), nn.Linear(24, kinds)

    def forward(self, x, edges):
        hidden = F.dropout(F.relu(edges @ self.first(x)), 0.5, self.training)
        return edges @ self.second(hidden)


model = Graph()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
best = 0.0
for step in range(steps):
    model.train()
    loss = F.cross_entropy(model(features, edges)[labelled], kind[labelled])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        best = max(best, (model(features, edges).argmax(1) == kind)[held_out].float().mean().item())
    if step % 50 == 0:
        print(step, loss.item(), best)
