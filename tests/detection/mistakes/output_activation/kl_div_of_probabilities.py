"""A student learns the class probabilities that a table of votes gives.

Mistake: kl_div of probabilities; its input are log-probabilities.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

table = torch.randn(12, 5)
student = nn.Sequential(nn.Linear(12, 32), nn.ReLU(), nn.Linear(32, 5))
criterion = nn.KLDivLoss(reduction="batchmean")
optimizer = torch.optim.Adam(student.parameters(), lr=2e-3)
for step in range(120):
    x = torch.randn(32, 12)
    votes = F.softmax(x @ table / 2, dim=1)
    prediction = F.softmax(student(x), dim=1)  # mistake
    # repaired: prediction = F.log_softmax(student(x), dim=1)
    loss = criterion(prediction, votes)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 20 == 0:
        print(step, loss.item())
