# Asked as: the gradient accumulation bug of language models: losses with unequal token counts (Unsloth blog, forums)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
PARTS, PAD = 4, -100


class LM(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(24, 24)
        self.rnn = nn.GRU(24, 32, batch_first=True)
        self.head = nn.Linear(32, 24)

    def forward(self, x):
        return self.head(self.rnn(self.embed(x))[0])


def micro_batch(longest):
    ids = (torch.randint(0, 24, (8, 1)) + 5 * torch.arange(17)) % 24
    lengths = torch.randint(1, longest + 1, (8, 1))
    labels = torch.where(torch.arange(16) < lengths, ids[:, 1:], PAD)
    return ids[:, :-1], labels


model = LM()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-3)
for step in range(30):
    parts = [micro_batch(longest) for longest in (2, 4, 8, 16)]
    tokens = sum(int((labels != PAD).sum()) for _, labels in parts)
    for ids, labels in parts:
        logits = model(ids).reshape(-1, 24)
        loss = F.cross_entropy(logits, labels.reshape(-1)) / PARTS  # mistake
        # repaired: loss = F.cross_entropy(logits, labels.reshape(-1), reduction="sum") / tokens
        loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 10 == 0:
        print(step, loss.item())
