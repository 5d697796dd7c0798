"""A teacher is trained, then a student with the teacher's probabilities at a temperature.

Mistake: kl_div of the student's probabilities; its input are log-probabilities.
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

table = torch.randn(12, 5)
x = torch.randn(640, 12)
y = (x @ table).argmax(1)
temperature = 2.0

teacher = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 5))
optimizer = torch.optim.Adam(teacher.parameters(), lr=3e-3)
for epoch in range(6):
    for inputs, labels in zip(x.split(64), y.split(64)):
        optimizer.zero_grad()
        F.cross_entropy(teacher(inputs), labels).backward()
        optimizer.step()
teacher.eval()

student = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5))
optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
for epoch in range(12):
    for inputs in x.split(64):
        with torch.no_grad():
            soft = F.softmax(teacher(inputs) / temperature, dim=1)
        logits = student(inputs) / temperature
        prediction = F.softmax(logits, dim=1)  # mistake
        # repaired: prediction = F.log_softmax(logits, dim=1)
        loss = F.kl_div(prediction, soft, reduction="batchmean") * temperature**2
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} distillation loss {loss.item():.4f}")
