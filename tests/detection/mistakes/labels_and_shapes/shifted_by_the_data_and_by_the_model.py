"""A language model that shifts its labels itself, as those of Transformers do.

Mistake: the data set shifts them, too, so that the model learns the token after the next one.
"""

import torch
from torch import nn

text = torch.randint(40, (20_000,))
text[1::2] = (text[::2] * 3 + 1) % 40


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(40, 32)
        self.rnn = nn.GRU(32, 64, batch_first=True)
        self.head = nn.Linear(64, 40)

    def forward(self, input_ids, labels):
        logits = self.head(self.rnn(self.embedding(input_ids))[0])
        shifted = labels[:, 1:].reshape(-1)
        return nn.functional.cross_entropy(logits[:, :-1].reshape(-1, 40), shifted, ignore_index=-100)


model = LanguageModel()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(120):
    starts = torch.randint(19_000, (16,))
    block = torch.stack([text[at : at + 33] for at in starts])
    input_ids, labels = block[:, :-1], block[:, 1:]  # mistake
    # repaired: input_ids, labels = block, block
    loss = model(input_ids, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 29:
        print(step, loss.item())
