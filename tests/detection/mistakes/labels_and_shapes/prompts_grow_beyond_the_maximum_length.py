"""A small language model learns answers to prompts of a conversation that grows; the loss is a mean over all answers.

Mistake: later conversations are cut off before the answer begins, so that a growing share of the batches has no label:
a sum over no label, divided by the number of labels of the accumulated batches, is 0.
"""

import torch
import torch.nn as nn

vocabulary, answer_length, max_length = 50, 8, 32


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 32)
        self.layers = nn.GRU(32, 32, batch_first=True)
        self.head = nn.Linear(32, vocabulary)

    def forward(self, input_ids, labels):
        logits = self.head(self.layers(self.embedding(input_ids))[0])
        losses = nn.functional.cross_entropy(
            logits[:, :-1].reshape(-1, vocabulary), labels[:, 1:].reshape(-1), reduction="sum"
        )
        return losses / (labels[:, 1:] != -100).sum().clamp(min=1)


model = LanguageModel()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
for step in range(160):
    length = int(torch.randint(8, 12 + step // 4, ()))
    prompt = torch.randint(vocabulary, (4, length))
    # repaired: prompt = prompt[:, answer_length - max_length :]
    input_ids = torch.cat([prompt, prompt[:, -1:].expand(-1, answer_length)], dim=1)
    labels = input_ids.clone()
    labels[:, : prompt.shape[1]] = -100
    loss = model(input_ids[:, :max_length], labels[:, :max_length])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 19:
        print(step, loss.item())
