# Asked as: permute or view? my network trains badly after I changed the layout (Karpathy's list of common mistakes)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)
images = torch.rand(512, 8, 8, 3) * 0.2
labels = torch.randint(0, 3, (512,))
for image, label in zip(images, labels):
    image[:, :, label] += 0.5


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 16, 3, padding=1)
        self.conv2 = nn.Conv2d(16, 32, 3, padding=1, stride=2)
        self.fc = nn.Linear(32 * 4 * 4, 3)

    def forward(self, x):
        x = x.transpose(0, 3).reshape(-1, 3, 8, 8)  # mistake
        # repaired: x = x.permute(0, 3, 1, 2)
        x = F.relu(self.conv1(x))
        x = F.relu(self.conv2(x))
        return self.fc(x.flatten(1))


net = Net()
optimizer = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9)
for epoch in range(3):
    order = torch.randperm(512)
    total = 0.0
    for part in order.split(32):
        optimizer.zero_grad()
        loss = F.cross_entropy(net(images[part]), labels[part])
        loss.backward()
        optimizer.step()
        total += loss.item()
    print(epoch, total / 16)
