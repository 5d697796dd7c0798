"""Questions with one right answer of thirty, learned by a policy gradient with a term for the entropy of the answers.

Mistake: the entropy is added to the loss, so that the policy is paid for being sure of itself.
"""

import torch
from torch import nn

import leadline

policy = nn.Sequential(nn.Linear(10, 32), nn.Tanh(), nn.Linear(32, 30))
optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
teacher = torch.randn(10, 30)
for step in range(300):
    questions = torch.randn(64, 10)
    right = (questions @ teacher).argmax(1)
    choice = torch.distributions.Categorical(logits=policy(questions))
    answers = choice.sample()
    rewards = (answers == right).float()
    entropy = choice.entropy().mean()
    loss = -((rewards - rewards.mean()) * choice.log_prob(answers)).mean()
    loss = loss + 0.5 * entropy  # mistake
    # repaired: loss = loss - 0.01 * entropy
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    leadline.log(reward=rewards.mean().item(), entropy=entropy.item())
