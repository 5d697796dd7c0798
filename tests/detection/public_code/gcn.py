"""Nodes of a citation graph in the manner of PyTorch Geometric's GCN example: full batches, masks, weight decay."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
nodes, features, classes = 240, 24, 4
labels = torch.randint(classes, (nodes,))
together = labels[:, None] == labels[None]
edges = (torch.rand(nodes, nodes) < torch.where(together, 0.06, 0.008)).float()
adjacency = ((edges + edges.T) > 0).float() + torch.eye(nodes)
degree = adjacency.sum(1).rsqrt()
adjacency = degree[:, None] * adjacency * degree[None]
x = 0.6 * torch.randn(classes, features)[labels] + torch.randn(nodes, features)
train_mask = torch.rand(nodes) < 0.4


class GCNConv(nn.Module):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.lin = nn.Linear(in_channels, out_channels, bias=False)
        self.bias = nn.Parameter(torch.zeros(out_channels))

    def forward(self, x, adjacency):
        return adjacency @ self.lin(x) + self.bias


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = GCNConv(features, 16)
        self.conv2 = GCNConv(16, classes)

    def forward(self, x, adjacency):
        x = F.dropout(x, p=0.5, training=self.training)
        x = self.conv1(x, adjacency).relu()
        x = F.dropout(x, p=0.5, training=self.training)
        x = self.conv2(x, adjacency)
        return F.log_softmax(x, dim=1)


model = GCN()
optimizer = torch.optim.Adam(
    [
        {"params": model.conv1.parameters(), "weight_decay": 5e-4},
        {"params": model.conv2.parameters(), "weight_decay": 0},
    ],
    lr=0.01,
)


def train():
    model.train()
    optimizer.zero_grad()
    out = model(x, adjacency)
    loss = F.nll_loss(out[train_mask], labels[train_mask])
    loss.backward()
    optimizer.step()
    return float(loss)


@torch.no_grad()
def test():
    model.eval()
    pred = model(x, adjacency).argmax(dim=-1)
    return [float((pred[mask] == labels[mask]).float().mean()) for mask in (train_mask, ~train_mask)]


for epoch in range(steps):
    loss = train()
    if epoch % 20 == 0:
        print(epoch, loss, *test())
