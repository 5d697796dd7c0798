# Asked as: batching graphs by hand, do I have to add an offset to edge_index? (PyTorch Geometric discussions)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
NODES = 6


def make_graph():
    x = torch.randn(NODES, 3)
    edges = torch.stack([torch.arange(NODES), torch.randperm(NODES)])
    return x, edges, x.sum().gt(0).long()


graphs = [make_graph() for _ in range(300)]


def collate(items):
    xs = torch.cat([x for x, _, _ in items])
    edges = torch.cat([edges for _, edges, _ in items], dim=1)  # mistake
    # repaired: edges = torch.cat([edges + i * NODES for i, (_, edges, _) in enumerate(items)], dim=1)
    batch = torch.arange(len(items)).repeat_interleave(NODES)
    return xs, edges, batch, torch.stack([y for _, _, y in items])


class GraphConv(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.own, self.others = nn.Linear(inputs, outputs), nn.Linear(inputs, outputs)

    def forward(self, x, edges):
        source, target = edges
        gathered = torch.zeros(len(x), x.shape[1]).index_add(0, target, x[source])
        return self.own(x) + self.others(gathered)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = GraphConv(3, 24), GraphConv(24, 24)
        self.head = nn.Linear(24, 2)

    def forward(self, x, edges, batch):
        x = F.relu(self.conv1(x, edges))
        x = F.relu(self.conv2(x, edges))
        size = int(batch.max()) + 1
        pooled = torch.zeros(size, 24).index_add(0, batch, x) / NODES
        return self.head(pooled)


net = Net()
optimizer = torch.optim.Adam(net.parameters(), lr=5e-3)
for epoch in range(4):
    for i in range(0, 300, 20):
        x, edges, batch, y = collate(graphs[i : i + 20])
        loss = F.cross_entropy(net(x, edges, batch), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
