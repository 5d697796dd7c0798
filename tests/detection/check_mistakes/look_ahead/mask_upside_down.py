# Asked as: tril or triu for the mask of nn.Transformer? (PyTorch forums)
import torch
from torch import nn

torch.manual_seed(0)
VOCABULARY, LENGTH = 24, 12


class LanguageModel(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(torch.randn(LENGTH, width) * 0.02)
        layer = nn.TransformerEncoderLayer(width, 4, 64, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 2)
        self.out = nn.Linear(width, VOCABULARY)

    def forward(self, x):
        size = x.size(1)
        mask = torch.tril(torch.ones(size, size, dtype=torch.bool), diagonal=-1)  # mistake
        # repaired: mask = torch.triu(torch.ones(size, size, dtype=torch.bool), diagonal=1)
        h = self.embedding(x) + self.positions[:size]
        return self.out(self.layers(h, mask=mask))


def batch(size=16):
    start = torch.randint(0, VOCABULARY, (size, 1))
    stride = torch.randint(1, 4, (size, 1))
    sequence = (start + stride * torch.arange(LENGTH + 1)) % VOCABULARY
    return sequence[:, :-1], sequence[:, 1:]


model = LanguageModel()
optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
criterion = nn.CrossEntropyLoss()
for step in range(60):
    x, y = batch()
    loss = criterion(model(x).transpose(1, 2), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 15 == 0:
        print(step, loss.item())
