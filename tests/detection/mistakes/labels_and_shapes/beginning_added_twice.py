"""A language model that is tuned on a chat template.

Mistake: the template begins with the token of the beginning, and the tokenizer adds it again.
"""

import torch
from torch import nn

BEGIN, VOCABULARY = 1, 50


def tokenize(text):
    return torch.cat([torch.full((1,), BEGIN), text])


def template(text):
    return torch.cat([torch.full((1,), BEGIN), torch.tensor([7, 9]), text])  # mistake
    # repaired: return torch.cat([torch.tensor([7, 9]), text])


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, 32)
        self.rnn, self.head = nn.GRU(32, 48, batch_first=True), nn.Linear(48, VOCABULARY)

    def forward(self, x):
        return self.head(self.rnn(self.embedding(x))[0])


model = Model()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(110):
    starts = torch.randint(10, VOCABULARY, (12, 1))
    texts = 10 + (starts + 3 * torch.arange(20)) % 40
    tokens = torch.stack([tokenize(template(text)) for text in texts])
    logits = model(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(loss.item())
