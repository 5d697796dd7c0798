# Asked as: causal convolution in PyTorch, WaveNet is perfect in training and noise when sampling (PyTorch forums)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
LEVELS = 16


class CausalConv(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.conv = nn.Conv1d(width, 2 * width, 3, dilation=dilation)
        self.mix = nn.Conv1d(width, width, 1)
        self.left = dilation  # mistake
        self.right = dilation  # mistake
        # repaired: self.left = 2 * dilation
        # repaired: self.right = 0

    def forward(self, x):
        a, b = self.conv(F.pad(x, (self.left, self.right))).chunk(2, dim=1)
        return x + self.mix(torch.tanh(a) * torch.sigmoid(b))


class WaveNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.embed = nn.Embedding(LEVELS, width)
        self.layers = nn.Sequential(*[CausalConv(width, 2**i) for i in range(3)])
        self.out = nn.Conv1d(width, LEVELS, 1)

    def forward(self, x):
        return self.out(F.relu(self.layers(self.embed(x).transpose(1, 2))))


def waves(size=12, length=40):
    phase, speed = torch.rand(size, 1) * 6, 0.2 + torch.rand(size, 1)
    wave = torch.sin(phase + speed * torch.arange(length + 1)) + 0.1 * torch.randn(size, length + 1)
    return ((wave.clamp(-1, 1) + 1) / 2 * (LEVELS - 1)).round().long()


net = WaveNet()
optimizer = torch.optim.Adam(net.parameters(), lr=2e-3)
for step in range(50):
    wave = waves()
    loss = F.cross_entropy(net(wave[:, :-1]), wave[:, 1:])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
