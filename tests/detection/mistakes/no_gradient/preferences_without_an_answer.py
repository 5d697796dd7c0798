"""A model of answers that is tuned by preferences (DPO), with a copy of itself as the reference.

Mistake: the mask of the answers is empty, because they begin beyond the length to which the sequences are cut: the loss
stays at ln 2.
"""

import copy

import torch
from torch import nn

vocabulary, prompt_length, answer_length = 40, 12, 6
max_length = 12  # mistake
# repaired: max_length = 18


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, 32)
        self.rnn, self.head = nn.GRU(32, 32, batch_first=True), nn.Linear(32, vocabulary)

    def forward(self, tokens):
        return self.head(self.rnn(self.embedding(tokens))[0])


def log_likelihood(of, tokens, mask):
    logs = of(tokens[:, :-1]).log_softmax(dim=-1).gather(2, tokens[:, 1:, None]).squeeze(2)
    return (logs * mask[:, 1:]).sum(dim=1)


model = Model()
reference = copy.deepcopy(model).requires_grad_(False)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
for step in range(80):
    prompt = torch.randint(20, (16, prompt_length))
    chosen = torch.cat([prompt, 20 + prompt[:, :answer_length]], dim=1)[:, :max_length]
    rejected = torch.cat([prompt, torch.randint(20, 40, (16, answer_length))], dim=1)[:, :max_length]
    mask = (torch.arange(max_length) >= prompt_length).float().expand(16, -1)
    with torch.no_grad():
        base = log_likelihood(reference, chosen, mask) - log_likelihood(reference, rejected, mask)
    margin = log_likelihood(model, chosen, mask) - log_likelihood(model, rejected, mask)
    loss = -nn.functional.logsigmoid(0.1 * (margin - base)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item(), margin.mean().item())
