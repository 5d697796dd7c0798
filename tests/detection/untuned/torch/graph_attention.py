"""Graph attention on one graph: the loss is on the nodes with a label, the others are for validation."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
N = 150
community = torch.randint(3, (N,))
same = community[:, None] == community
adjacency = (torch.rand(N, N) < torch.where(same, 0.12, 0.01)).float()
adjacency = ((adjacency + adjacency.T + torch.eye(N)) > 0).float()
features = F.one_hot(community, 3).float() @ torch.randn(3, 16) * 0.6 + torch.randn(N, 16)
train_mask, val_mask = torch.zeros(N).bool(), torch.zeros(N).bool()
train_mask[:45], val_mask[45:] = True, True


class GAT(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.lin = nn.Linear(inputs, outputs, bias=False)
        self.src, self.dst = nn.Linear(outputs, 1, bias=False), nn.Linear(outputs, 1, bias=False)

    def forward(self, x):
        h = self.lin(x)
        e = F.leaky_relu(self.src(h) + self.dst(h).T, 0.2).masked_fill(adjacency == 0, float("-inf"))
        return e.softmax(1) @ h


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = GAT(16, 24), GAT(24, 3)

    def forward(self, x):
        x = F.dropout(x, 0.4, training=self.training)
        x = F.elu(self.conv1(x))
        x = F.dropout(x, 0.4, training=self.training)
        return F.log_softmax(self.conv2(x), dim=1)


model = Net()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01, weight_decay=5e-4)
history = []
for epoch in range(steps):
    model.train()
    optimizer.zero_grad()
    loss = F.nll_loss(model(features)[train_mask], community[train_mask])
    loss.backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        out = model(features)
        accuracy = (out.argmax(1) == community)[val_mask].float().mean().item()
    history.append(loss.item())
    if epoch % 25 == 0:
        print(epoch, loss.item(), accuracy)
print(f"loss fell from {history[0]:.4g} to {sum(history[-10:]) / 10:.4g}")
