"""Predict missing friendships in a small network with a graph autoencoder."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

FIXED = len(sys.argv) > 1 and sys.argv[1] == "fixed"
torch.manual_seed(0)
NODES, GROUPS = 240, 6


def network(generator):
    """Friends are found mostly within groups; the features tell little of the group."""
    group = torch.randint(0, GROUPS, (NODES,), generator=generator)
    chance = torch.where(group[:, None] == group[None, :], 0.12, 0.01)
    adjacency = (torch.rand(NODES, NODES, generator=generator) < chance).triu(1)
    features = 0.3 * F.one_hot(group, GROUPS).float() + torch.randn(NODES, GROUPS, generator=generator)
    features = torch.cat([features, torch.randn(NODES, 10, generator=generator)], 1)
    return features, adjacency.nonzero().T


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(16, 32), nn.Linear(32, 16)

    def forward(self, x, matrix):
        return matrix @ self.second(F.relu(matrix @ self.first(x)))


def normalized(edges):
    """The adjacency with self loops, scaled by the degrees."""
    matrix = torch.eye(NODES)
    matrix[edges[0], edges[1]] = 1
    matrix[edges[1], edges[0]] = 1
    scale = matrix.sum(1).rsqrt()
    return scale[:, None] * matrix * scale[None, :]


def score(z, edges):
    return (z[edges[0]] * z[edges[1]]).sum(-1)


def auc(positive, negative):
    return (positive[:, None] > negative[None, :]).float().mean().item()


def main():
    generator = torch.Generator().manual_seed(0)
    features, edges = network(generator)
    edges = edges[:, torch.randperm(edges.shape[1], generator=generator)]
    held = edges.shape[1] // 5
    test_edges, train_edges = edges[:, :held], edges[:, held:]
    test_negative = torch.randint(0, NODES, (2, held), generator=generator)
    graph = normalized(train_edges if FIXED else edges)
    model = Encoder()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    for step in range(200):
        model.train()
        z = model(features, graph)
        negative = torch.randint(0, NODES, train_edges.shape)
        loss = F.binary_cross_entropy_with_logits(
            torch.cat([score(z, train_edges), score(z, negative)]),
            torch.cat([torch.ones(train_edges.shape[1]), torch.zeros(negative.shape[1])]),
        )
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 40 == 39:
            model.eval()
            with torch.no_grad():
                z = model(features, graph)
            found = auc(score(z, test_edges), score(z, test_negative))
            print(f"step {step}  loss {loss.item():.3f}  test AUC {found:.3f}")


if __name__ == "__main__":
    main()
