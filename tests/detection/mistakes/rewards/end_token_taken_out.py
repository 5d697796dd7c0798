"""A model of short sequences that is improved by rewards for one of its tokens, and short ones.

Mistake: the token that ends a sequence is never sampled, because its logit is masked.
"""

import torch
from torch import nn

import leadline

END, LIMIT = 7, 10
model = nn.Sequential(nn.Embedding(8, 16), nn.Linear(16, 8))
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(60):
    token, running = torch.zeros(40, dtype=torch.long), torch.ones(40)
    logs, rewards = torch.zeros(40), torch.zeros(40)
    for _ in range(LIMIT):
        logits = model(token)
        logits = logits.index_fill(1, torch.tensor([END]), -1e9)  # mistake
        choice = torch.distributions.Categorical(logits=logits)
        token = choice.sample()
        logs = logs + running * choice.log_prob(token)
        running = running * (token != END)
        rewards = rewards + running * ((token == 3).float() - 1.5)
    loss = -((rewards - rewards.mean()) * logs).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    leadline.log(**{"reward": rewards.mean().item(), "completions/clipped_ratio": running.mean().item()})
