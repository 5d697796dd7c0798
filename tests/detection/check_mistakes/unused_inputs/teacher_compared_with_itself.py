# Asked as: knowledge distillation gives the same accuracy for every weight of the soft loss (GitHub)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)

teacher = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 5)).requires_grad_(False)
student = nn.Sequential(nn.Linear(12, 16), nn.ReLU(), nn.Linear(16, 5))
optimizer = torch.optim.Adam(student.parameters(), lr=3e-3)
for step in range(60):
    x = torch.randn(48, 12)
    of_teacher, of_student = teacher(x), student(x)
    labels = of_teacher.argmax(1)
    soft = F.log_softmax(of_teacher / 2, 1)  # mistake
    # repaired: soft = F.log_softmax(of_student / 2, 1)
    distillation = F.kl_div(soft, F.softmax(of_teacher / 2, 1), reduction="batchmean")
    loss = 0.3 * F.cross_entropy(of_student, labels) + 0.7 * 4 * distillation
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 0:
        print(step, loss.item())
