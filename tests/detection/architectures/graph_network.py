"""Message passing over batches of small graphs with edge features, written by hand."""

import torch
from torch import nn

torch.manual_seed(0)


def graph():
    nodes = int(torch.randint(4, 9, (1,)))
    x = torch.randn(nodes, 3)
    edges = (torch.rand(nodes, nodes) < 0.4).nonzero().T
    weight = torch.rand(edges.shape[1], 1)
    return x, edges, weight, (x[:, 0].mean() + weight.mean()).reshape(1)


def collate(graphs):
    offsets = torch.tensor([0, *[len(x) for x, *_ in graphs]]).cumsum(0)
    x = torch.cat([g[0] for g in graphs])
    edges = torch.cat([g[1] + offset for g, offset in zip(graphs, offsets)], dim=1)
    batch = torch.repeat_interleave(torch.arange(len(graphs)), offsets.diff())
    return x, edges, torch.cat([g[2] for g in graphs]), batch, torch.cat([g[3] for g in graphs])


class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.message = nn.Sequential(nn.Linear(2 * width + 1, width), nn.ReLU())
        self.update = nn.GRUCell(width, width)

    def forward(self, h, edges, weight):
        source, target = edges
        messages = self.message(torch.cat([h[source], h[target], weight], dim=1))
        return self.update(torch.zeros_like(h).index_add(0, target, messages), h)


class Network(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.embed = nn.Linear(3, width)
        self.layers = nn.ModuleList([Layer(width), Layer(width)])
        self.readout = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 1))

    def forward(self, x, edges, weight, batch, size):
        h = self.embed(x)
        for layer in self.layers:
            h = layer(h, edges, weight)
        count = torch.zeros(size).index_add(0, batch, torch.ones(len(h)))
        return self.readout(torch.zeros(size, h.shape[1]).index_add(0, batch, h) / count[:, None]).squeeze(1)


model = Network()
optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
for step in range(50):
    x, edges, weight, batch, y = collate([graph() for _ in range(16)])
    loss = nn.functional.mse_loss(model(x, edges, weight, batch, 16), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
