"""A classifier that takes the logarithm by hand.

Mistake: negative log-likelihood of sigmoid outputs, whose probabilities do not sum to 1.
"""

import torch
from torch import nn

prototypes = torch.randn(3, 8)
labels = torch.randint(3, (480,))
inputs = prototypes[labels] + 0.6 * torch.randn(480, 8)

model = nn.Sequential(
    nn.Linear(8, 24),
    nn.Tanh(),
    nn.Linear(24, 3),
    nn.Sigmoid(),  # mistake
    # repaired: nn.Softmax(dim=1),
)
criterion = nn.NLLLoss()
optimizer = torch.optim.RMSprop(model.parameters(), lr=2e-3)
for epoch in range(8):
    for k in range(0, 480, 40):
        probabilities = model(inputs[k : k + 40])
        loss = criterion(torch.log(probabilities + 1e-9), labels[k : k + 40])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(epoch, loss.item())
