"""Citation-like directed graph: the topic of a node is decided by the papers that it cites."""

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)
torch.manual_seed(0)
N, K, D = 1200, 4, 16
proto = torch.randn(K, D)
feat_class = torch.randint(0, K, (N,))
x = proto[feat_class] + 0.7 * torch.randn(N, D)
# node i cites 6 earlier-drawn nodes, mostly of one topic: that topic is the label
y = torch.randint(0, K, (N,))
src, dst = [], []
for i in range(N):
    same = torch.nonzero(feat_class == y[i]).squeeze(1)
    cites = torch.cat([same[torch.randint(0, len(same), (5,))], torch.randint(0, N, (1,))])
    src += [i] * 6
    dst += cites.tolist()
edge_index = torch.tensor([src, dst])  # [citing, cited]


class GCNLayer(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.lin, self.self_lin = nn.Linear(i, o), nn.Linear(i, o)

    def forward(self, h, ei):
        citing, cited = ei
        agg = torch.zeros(N, h.size(1)).index_add_(0, cited, h[citing])  # mistake
        deg = torch.zeros(N).index_add_(0, cited, torch.ones(len(cited))).clamp(min=1)  # mistake
        # repaired: agg = torch.zeros(N, h.size(1)).index_add_(0, citing, h[cited])
        # repaired: deg = torch.zeros(N).index_add_(0, citing, torch.ones(len(citing))).clamp(min=1)
        return self.lin(agg / deg[:, None]) + self.self_lin(h)


class GCN(nn.Module):
    def __init__(self):
        super().__init__()
        self.c1, self.c2 = GCNLayer(D, 32), GCNLayer(32, 32)
        self.out = nn.Linear(32, K)

    def forward(self, x, ei):
        h = F.dropout(F.relu(self.c1(x, ei)), 0.3, self.training)
        return self.out(F.relu(self.c2(h, ei)))


perm = torch.randperm(N)
tr, va, te = perm[:800], perm[800:1000], perm[1000:]
model = GCN()
opt = torch.optim.Adam(model.parameters(), lr=5e-3, weight_decay=5e-4)
for epoch in range(1, 151):
    model.train()
    loss = F.cross_entropy(model(x, edge_index)[tr], y[tr])
    opt.zero_grad()
    loss.backward()
    opt.step()
    if epoch % 15 == 0:
        model.eval()
        with torch.no_grad():
            p = model(x, edge_index).argmax(1)
        print(
            f"Epoch {epoch:03d} loss {loss.item():.4f} train {(p[tr] == y[tr]).float().mean():.3f} val {(p[va] == y[va]).float().mean():.3f} test {(p[te] == y[te]).float().mean():.3f}"
        )
