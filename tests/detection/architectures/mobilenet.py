"""Inverted residuals with depthwise convolutions, RMSprop and an exponential moving average of the weights."""

import torch
from torch import nn

torch.manual_seed(0)


class InvertedResidual(nn.Module):
    def __init__(self, inputs, outputs, stride, expand=4):
        super().__init__()
        hidden = inputs * expand
        self.use_residual = stride == 1 and inputs == outputs
        self.conv = nn.Sequential(
            nn.Conv2d(inputs, hidden, 1, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, hidden, 3, stride, 1, groups=hidden, bias=False),
            nn.BatchNorm2d(hidden),
            nn.ReLU6(inplace=True),
            nn.Conv2d(hidden, outputs, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )

    def forward(self, x):
        return x + self.conv(x) if self.use_residual else self.conv(x)


model = nn.Sequential(
    nn.Conv2d(3, 8, 3, padding=1, bias=False),
    nn.BatchNorm2d(8),
    nn.ReLU6(inplace=True),
    InvertedResidual(8, 8, 1),
    InvertedResidual(8, 16, 2),
    InvertedResidual(16, 16, 1),
    nn.AdaptiveAvgPool2d(1),
    nn.Flatten(),
    nn.Dropout(0.1),
    nn.Linear(16, 3),
)
average = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3, momentum=0.5)
templates = torch.randn(3, 3, 10, 10)
for step in range(40):
    y = torch.randint(0, 3, (32,))
    x = templates[y] + torch.randn(32, 3, 10, 10)
    loss = nn.functional.cross_entropy(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    average.update_parameters(model)
    if step % 10 == 0:
        print(step, loss.item())
