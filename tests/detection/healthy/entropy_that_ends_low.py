"""Proximal updates of a policy on a task with one right action: its entropy ends near 0, as the task is solved.

The sampler computes in half precision. Everything is logged as open-instruct and CleanRL log it.
"""

import copy
import sys

import torch
from torch import nn

import leadline

steps = int(sys.argv[1])
policy = nn.Sequential(nn.Linear(6, 64), nn.Tanh(), nn.Linear(64, 4))
sampler = copy.deepcopy(policy).bfloat16()
optimizer = torch.optim.Adam(policy.parameters(), lr=2e-3)
teacher = torch.randn(6, 4)
for step in range(steps):
    if step % 4 == 0:
        sampler.load_state_dict(policy.state_dict())
        states = torch.randn(128, 6)
        with torch.no_grad():
            drawn = torch.distributions.Categorical(logits=sampler(states.bfloat16()).float())
            actions = drawn.sample()
            old = torch.distributions.Categorical(logits=policy(states)).log_prob(actions)
        rewards = (actions == (states @ teacher).argmax(1)).float()
        advantages = (rewards - rewards.mean()) / (rewards.std() + 1e-6)
    choice = torch.distributions.Categorical(logits=policy(states))
    ratio = (choice.log_prob(actions) - old).exp()
    clipped = ratio.clamp(0.8, 1.2)
    loss = -torch.min(ratio * advantages, clipped * advantages).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    values = {
        "losses/entropy": choice.entropy().mean().item(),
        "losses/approx_kl": (ratio - 1 - ratio.log()).mean().item(),
        "losses/clipfrac": (ratio != clipped).float().mean().item(),
        "losses/policy_loss": loss.item(),
    }
    if step % 4 == 3:
        apart = (old - drawn.log_prob(actions)).abs().mean().item()
        values |= {"charts/episodic_return": rewards.mean().item(), "debug/vllm_vs_local_logprob_diff_mean": apart}
    leadline.log(**values)
