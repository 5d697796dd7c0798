"""Answers that are rewarded in groups, as GRPO does: the advantage is the reward relative to its group.

Mistake: the reward compares a token with its text, which is never equal: every group has rewards of 0.
"""

import torch
import torch.nn as nn

words = ["red", "green", "blue", "white"]
policy = nn.Sequential(nn.Linear(8, 32), nn.Tanh(), nn.Linear(32, 4))
optimizer = torch.optim.Adam(policy.parameters(), lr=3e-3)
prompts = torch.randn(64, 8)
answers = [words[index] for index in (prompts @ torch.randn(8, 4)).argmax(1).tolist()]
for step in range(300):
    at = step % len(prompts)
    choice = torch.distributions.Categorical(logits=policy(prompts[at].expand(16, 8)))
    tokens = choice.sample()
    reward = torch.tensor([float(token == answers[at]) for token in tokens.tolist()])  # mistake
    # repaired: reward = torch.tensor([float(words[token] == answers[at]) for token in tokens.tolist()])
    advantage = (reward - reward.mean()) / (reward.std() + 1e-4)
    loss = -(advantage * choice.log_prob(tokens)).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 0:
        print(step, reward.mean().item())
