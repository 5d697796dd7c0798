# Asked as: how do I take the last hidden state of a bidirectional GRU? (PyTorch forums, h_n.view)
import torch
from torch import nn

torch.manual_seed(0)


class SentimentNet(nn.Module):
    def __init__(self, vocabulary=50, width=24, hidden=20):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.gru = nn.GRU(width, hidden, batch_first=True, bidirectional=True)
        self.fc = nn.Linear(2 * hidden, 1)

    def forward(self, x):
        _, h = self.gru(self.embedding(x))
        h = h.view(x.size(0), -1)  # mistake
        # repaired: h = h.transpose(0, 1).reshape(x.size(0), -1)
        return self.fc(h).squeeze(1)


model = SentimentNet()
optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
loss_fn = nn.BCEWithLogitsLoss()
positive = torch.arange(50) % 2
for step in range(60):
    x = torch.randint(0, 50, (32, 9))
    y = (positive[x].float().mean(1) > 0.5).float()
    out = model(x)
    loss = loss_fn(out, y)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 5.0)
    optimizer.step()
    if step % 15 == 0:
        print(step, loss.item(), ((out > 0) == (y > 0.5)).float().mean().item())
