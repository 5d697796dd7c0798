# Asked as: GCN accuracy equals the majority class, node ids are remapped for edges but not for features (DGL forum)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
NODES = 200
labels = torch.randint(0, 3, (NODES,))
features = F.one_hot(labels, 3).float() + 0.6 * torch.randn(NODES, 3)
same = (labels[:, None] == labels[None, :]).float()
adjacency = (torch.rand(NODES, NODES) < 0.06 * same + 0.005).float()
adjacency = ((adjacency + adjacency.T + torch.eye(NODES)) > 0).float()

order = torch.randperm(NODES)
adjacency, labels = adjacency[order][:, order], labels[order]
features = features[order[order]]  # mistake
# repaired: features = features[order]
propagate = adjacency / adjacency.sum(1, keepdim=True)
train = torch.rand(NODES) < 0.5


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 16), nn.Linear(16, 3)

    def forward(self, x, a):
        x = F.relu(self.first(a @ x))
        return self.second(a @ x)


model = GCN()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2, weight_decay=5e-4)
for epoch in range(60):
    out = model(features, propagate)
    loss = F.cross_entropy(out[train], labels[train])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if epoch % 20 == 0:
        print(epoch, loss.item(), (out[~train].argmax(1) == labels[~train]).float().mean().item())
