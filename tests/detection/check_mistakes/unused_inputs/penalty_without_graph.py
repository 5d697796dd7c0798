# Asked as: the graph of the gradients is not connected to the network, does the gradient penalty train it at all? (https://github.com/igul222/improved_wgan_training/issues/18)
import torch
from torch import nn

torch.manual_seed(0)

critic = nn.Sequential(nn.Linear(2, 32), nn.LeakyReLU(0.2), nn.Linear(32, 1))
generator = nn.Sequential(nn.Linear(4, 32), nn.ReLU(), nn.Linear(32, 2))
of_critic = torch.optim.Adam(critic.parameters(), lr=1e-3, betas=(0.0, 0.9))
of_generator = torch.optim.Adam(generator.parameters(), lr=1e-3, betas=(0.0, 0.9))


def penalty(real, fake):
    share = torch.rand(len(real), 1)
    between = (share * real + (1 - share) * fake).requires_grad_(True)
    scores = critic(between)
    slopes = torch.autograd.grad(scores, between, torch.ones_like(scores), retain_graph=True)[0]  # mistake
    # repaired: slopes = torch.autograd.grad(scores, between, torch.ones_like(scores), create_graph=True)[0]
    return ((slopes.norm(2, dim=1) - 1) ** 2).mean()


for step in range(60):
    real = torch.tensor([1.0, -1.0]) + 0.1 * torch.randn(64, 2)
    fake = generator(torch.randn(64, 4)).detach()
    loss = critic(fake).mean() - critic(real).mean() + 10 * penalty(real, fake)
    of_critic.zero_grad()
    loss.backward()
    of_critic.step()
    if step % 5 == 4:
        cheated = -critic(generator(torch.randn(64, 4))).mean()
        of_generator.zero_grad()
        cheated.backward()
        of_generator.step()
    if step % 10 == 0:
        print(step, loss.item())
