# Asked as: dense batches of graphs with padded nodes, the readout depends on the largest graph (DGL and PyG forums)
import torch
from torch import nn

torch.manual_seed(0)
MOST = 9


class DenseGCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(4, 24), nn.Linear(24, 24)
        self.out = nn.Linear(24, 1)

    def forward(self, x, adjacency, exists):
        degree = adjacency.sum(-1, keepdim=True).clamp(min=1)
        h = torch.relu(self.first(adjacency @ x / degree + x))
        h = torch.relu(self.second(adjacency @ h / degree + h))
        readout = h.mean(1)  # mistake
        # repaired: readout = (h * exists[..., None]).sum(1) / exists.sum(1, keepdim=True)
        return self.out(readout).squeeze(-1)


def molecules(size=32):
    nodes = torch.randint(3, MOST + 1, (size, 1))
    exists = (torch.arange(MOST) < nodes).float()
    x = torch.randn(size, MOST, 4) * exists[..., None]
    edges = (torch.rand(size, MOST, MOST) < 0.4).float().triu(1)
    adjacency = (edges + edges.transpose(1, 2)) * exists[:, :, None] * exists[:, None, :]
    y = x[..., 0].sum(1) / nodes.squeeze(1)
    return x, adjacency, exists, y


model = DenseGCN()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for step in range(60):
    x, adjacency, exists, y = molecules()
    prediction = model(x, adjacency, exists)
    loss = nn.functional.mse_loss(prediction, y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 15 == 0:
        print(step, loss.item())
