"""Plain convolutions with dropout in the classifier; Kaiming initialization and label smoothing."""

import torch
from torch import nn

torch.manual_seed(0)


class VGG(nn.Module):
    def __init__(self, plan=(16, "M", 32, "M"), classes=4):
        super().__init__()
        layers, channels = [], 3
        for width in plan:
            if width == "M":
                layers.append(nn.MaxPool2d(2))
            else:
                layers += [nn.Conv2d(channels, width, 3, padding=1), nn.ReLU(inplace=True)]
                channels = width
        self.features = nn.Sequential(*layers)
        self.classifier = nn.Sequential(
            nn.Linear(channels * 9, 64), nn.ReLU(inplace=True), nn.Dropout(0.5), nn.Linear(64, classes)
        )
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
                nn.init.zeros_(module.bias)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


model = VGG()
optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9)
criterion = nn.CrossEntropyLoss(label_smoothing=0.1)
templates = torch.randn(4, 3, 12, 12)
for step in range(50):
    y = torch.randint(0, 4, (32,))
    x = templates[y] + torch.randn(32, 3, 12, 12)
    loss = criterion(model(x), y)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
