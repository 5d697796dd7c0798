# Asked as: my input normalizer learns mean and std while training, after load_state_dict results are wrong
import torch
from torch import nn

torch.manual_seed(0)


class RunningNormalizer(nn.Module):
    def __init__(self, size):
        super().__init__()
        mean, var = torch.zeros(size), torch.ones(size)
        self.mean, self.var = mean, var  # mistake
        # repaired: self.register_buffer("mean", mean)
        # repaired: self.register_buffer("var", var)

    def forward(self, x):
        if self.training:
            with torch.no_grad():
                self.mean = 0.9 * self.mean + 0.1 * x.mean(0)
                self.var = 0.9 * self.var + 0.1 * x.var(0)
        return (x - self.mean) / (self.var + 1e-5).sqrt()


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.normalize = RunningNormalizer(4)
        self.net = nn.Sequential(nn.Linear(4, 32), nn.Tanh(), nn.Linear(32, 1))

    def forward(self, x):
        return self.net(self.normalize(x))


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=5e-3)
for step in range(60):
    z = torch.randn(32, 4)
    x = z * torch.tensor([1.0, 2.0, 5.0, 3.0]) + torch.tensor([3.0, 0.0, -4.0, 6.0])
    loss = nn.functional.mse_loss(model(x), z[:, :1] - z[:, 2:3])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, "checkpoint.pt")
