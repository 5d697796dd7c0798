# Asked as: my character model learns bigrams and nothing more, the attention seems to do nothing (nanoGPT discussions)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)


class CausalSelfAttention(nn.Module):
    def __init__(self, width, heads, block):
        super().__init__()
        self.heads = heads
        self.attend = nn.Linear(width, 3 * width)
        self.project = nn.Linear(width, width)
        self.register_buffer("allowed", torch.eye(block, dtype=torch.bool))  # mistake
        # repaired: self.register_buffer("allowed", torch.tril(torch.ones(block, block, dtype=torch.bool)))

    def forward(self, x):
        b, t, c = x.size()
        q, k, v = (p.view(b, t, self.heads, c // self.heads).transpose(1, 2) for p in self.attend(x).split(c, dim=2))
        weights = q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5
        weights = weights.masked_fill(~self.allowed[:t, :t], float("-inf")).softmax(-1)
        return self.project((weights @ v).transpose(1, 2).reshape(b, t, c))


class Model(nn.Module):
    def __init__(self, vocabulary=20, width=32, block=12):
        super().__init__()
        self.token, self.position = nn.Embedding(vocabulary, width), nn.Embedding(block, width)
        self.attentions = nn.ModuleList(CausalSelfAttention(width, 4, block) for _ in range(2))
        self.mlps = nn.ModuleList(
            nn.Sequential(nn.Linear(width, 64), nn.ReLU(), nn.Linear(64, width)) for _ in range(2)
        )
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(4))
        self.head = nn.Linear(width, vocabulary)

    def forward(self, x):
        h = self.token(x) + self.position(torch.arange(x.size(1)))
        for i, (attention, mlp) in enumerate(zip(self.attentions, self.mlps)):
            h = h + attention(self.norms[2 * i](h))
            h = h + mlp(self.norms[2 * i + 1](h))
        return self.head(h)


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=2e-3)
for step in range(60):
    sequence = torch.randint(0, 20, (16, 13))
    for t in range(2, 13):
        sequence[:, t] = (sequence[:, t - 1] + sequence[:, t - 2]) % 20
    loss = F.cross_entropy(model(sequence[:, :-1]).reshape(-1, 20), sequence[:, 1:].reshape(-1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
