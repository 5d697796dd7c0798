# Asked as: REINFORCE return goes down instead of up, where does the minus belong? (r/reinforcementlearning)
import torch
from torch import nn
from torch.distributions import Categorical

torch.manual_seed(0)
policy = nn.Sequential(nn.Linear(6, 32), nn.Tanh(), nn.Linear(32, 3))
optimizer = torch.optim.Adam(policy.parameters(), lr=5e-3)
preference = torch.randn(6, 3)
for step in range(60):
    state = torch.randn(64, 6)
    chance = Categorical(logits=policy(state))
    action = chance.sample()
    reward = (state @ preference).gather(1, action[:, None]).squeeze(1)
    advantage = (reward - reward.mean()) / (reward.std() + 1e-6)
    loss = (chance.log_prob(action) * advantage).mean()  # mistake
    # repaired: loss = -(chance.log_prob(action) * advantage).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(f"{step}: mean reward {reward.mean().item():.3f}")
