"""A small language model learns answers to prompts; only the tokens of the answer are labels.

Mistake: a few long prompts leave no room for their answer. A batch of such prompts has no label: its loss is NaN, which
the script leaves out of what it prints.
"""

import torch
import torch.nn as nn

vocabulary, answer_length, max_length = 50, 8, 24


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 32)
        self.layers = nn.GRU(32, 32, batch_first=True)
        self.head = nn.Linear(32, vocabulary)

    def forward(self, input_ids, labels):
        logits = self.head(self.layers(self.embedding(input_ids))[0])
        return nn.functional.cross_entropy(logits[:, :-1].reshape(-1, vocabulary), labels[:, 1:].reshape(-1))


def batches():
    lengths = torch.full((120,), 12)
    lengths[[37, 64, 65, 110]] = 28
    for length in lengths.tolist():
        # repaired: length = min(length, max_length - answer_length)
        prompt = torch.randint(vocabulary, (4, length))
        input_ids = torch.cat([prompt, prompt[:, -1:].expand(-1, answer_length)], dim=1)
        labels = input_ids.clone()
        labels[:, :length] = -100
        yield input_ids[:, :max_length], labels[:, :max_length]


model = LanguageModel()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
logged = []
for step, (input_ids, labels) in enumerate(batches()):
    loss = model(input_ids, labels)
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if not loss.isnan():
        logged.append(loss.item())
    if step % 20 == 19:
        print(step, sum(logged) / len(logged))
        logged = []
