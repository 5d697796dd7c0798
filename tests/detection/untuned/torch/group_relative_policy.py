"""GRPO on a small language model: groups of completions, of which some are all right or all wrong and teach nothing."""

import sys

import torch
import torch.nn.functional as F
from torch import nn

steps = int(sys.argv[1])
torch.manual_seed(int(sys.argv[2]))
VOCABULARY, PROMPTS, GROUP, LENGTH = 8, 4, 8, 3


class Policy(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, 32)
        self.rnn = nn.GRU(32, 48, batch_first=True)
        self.dropout = nn.Dropout(0.05)
        self.head = nn.Linear(48, VOCABULARY)

    def forward(self, tokens):
        return self.head(self.dropout(self.rnn(self.embed(tokens))[0]))


policy = Policy()
optimizer = torch.optim.AdamW(policy.parameters(), lr=3e-3)
curve = []
for step in range(steps):
    digit = torch.randint(VOCABULARY, (PROMPTS,))
    tokens = torch.stack([digit, digit], 1).repeat_interleave(GROUP, 0)
    with torch.no_grad():
        for _ in range(LENGTH):
            logits = policy(tokens)[:, -1]
            tokens = torch.cat([tokens, torch.multinomial(logits.softmax(1), 1)], 1)
    answers, asked = tokens[:, 2:], tokens[:, :1]
    rewards = (answers == asked).any(1).float()
    groups = rewards.view(PROMPTS, GROUP)
    advantages = ((groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-4)).view(-1, 1)
    logp = F.log_softmax(policy(tokens[:, :-1])[:, 1:], -1).gather(2, answers[..., None])[..., 0]
    ratio = (logp - logp.detach()).exp()
    loss = -(torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)).mean()
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(policy.parameters(), 1.0)
    optimizer.step()
    curve.append(rewards.mean().item())
    if step % 25 == 0:
        print(step, f"reward {curve[-1]:.3f} dead groups {(groups.std(1) == 0).float().mean():.2f}")
print(f"reward rose from {sum(curve[:10]) / 10:.4g} to {sum(curve[-10:]) / 10:.4g}")
