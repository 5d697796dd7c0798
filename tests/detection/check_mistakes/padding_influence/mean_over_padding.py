# Asked as: sentence embeddings change with the longest sentence of the batch (sentence-transformers issues)
import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence

torch.manual_seed(0)


class Sentiment(nn.Module):
    def __init__(self, vocabulary=40, width=32):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, width)
        self.hidden = nn.Sequential(nn.Linear(width, 32), nn.ReLU())
        self.classify = nn.Linear(32, 2)

    def forward(self, ids, mask):
        h = self.hidden(self.embedding(ids))
        pooled = h.mean(1)  # mistake
        # repaired: pooled = (h * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)
        return self.classify(pooled)


def sentences(size):
    texts = [torch.randint(1, 40, (int(n),)) for n in torch.randint(3, 20, (size,))]
    labels = torch.tensor([int((t < 12).float().mean() > 0.28) for t in texts])
    ids = pad_sequence(texts, batch_first=True)
    return ids, (ids != 0).float(), labels


model = Sentiment()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(60):
    ids, mask, labels = sentences(32)
    loss = nn.functional.cross_entropy(model(ids, mask), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
