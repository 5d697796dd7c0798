"""A critic learns the value of a random walk from single steps.

Mistake: the value of the next state is part of the target, and its gradient is not cut off, so that the target moves
towards the prediction.
"""

import torch
import torch.nn.functional as F
from torch import nn

STATES, DISCOUNT = 9, 0.9


def walk(count):
    """Return states, rewards, following states, and whether the walk goes on."""
    state = torch.randint(0, STATES, (count,))
    following = state + 2 * torch.randint(0, 2, (count,)) - 1
    goes_on = ((following >= 0) & (following < STATES)).float()
    reward = (following == STATES).float()
    return state, reward, following.clamp(0, STATES - 1), goes_on


def one_hot(state):
    return F.one_hot(state, STATES).float()


critic = nn.Sequential(nn.Linear(STATES, 32), nn.Tanh(), nn.Linear(32, 1))
optimizer = torch.optim.Adam(critic.parameters(), lr=3e-3)
for step in range(300):
    state, reward, following, goes_on = walk(64)
    value = critic(one_hot(state)).squeeze(1)
    target = reward + DISCOUNT * critic(one_hot(following)).squeeze(1) * goes_on  # mistake
    # repaired: with torch.no_grad():
    # repaired:     target = reward + DISCOUNT * critic(one_hot(following)).squeeze(1) * goes_on
    loss = F.mse_loss(value, target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 49:
        print(step, loss.item(), critic(torch.eye(STATES)).flatten().tolist()[-1])
