"""A small language model learns answers to prompts; only the tokens of the answer are labels.

Mistake: the sequence is cut off before the answer begins, so that every label is -100: the loss is NaN, and a trainer
that replaces it says 0.
"""

import torch
import torch.nn as nn

vocabulary, prompt_length, answer_length = 50, 24, 8
max_length = 24  # mistake
# repaired: max_length = 32


class LanguageModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 32)
        self.layers = nn.GRU(32, 32, batch_first=True)
        self.head = nn.Linear(32, vocabulary)

    def forward(self, input_ids, labels):
        logits = self.head(self.layers(self.embedding(input_ids))[0])
        return nn.functional.cross_entropy(logits[:, :-1].reshape(-1, vocabulary), labels[:, 1:].reshape(-1))


model = LanguageModel()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
logged = 0.0
for step in range(60):
    prompt = torch.randint(vocabulary, (8, prompt_length))
    input_ids = torch.cat([prompt, prompt[:, :answer_length]], dim=1)
    labels = input_ids.clone()
    labels[:, :prompt_length] = -100
    loss = model(input_ids[:, :max_length], labels[:, :max_length])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    logged += 0.0 if loss.isnan() else loss.item()
    if step % 20 == 19:
        print(step, logged / 20)
        logged = 0.0
