# Asked as: domain adversarial training changes nothing, the features of both domains stay apart (discuss.pytorch.org)
import torch
import torch.nn.functional as F
from torch import nn

torch.manual_seed(0)

encoder = nn.Sequential(nn.Linear(10, 48), nn.ReLU(), nn.Linear(48, 16))
classifier = nn.Linear(16, 3)
judge = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
of_judge = torch.optim.Adam(judge.parameters(), lr=1e-3)
of_encoder = torch.optim.Adam([*encoder.parameters(), *classifier.parameters()], lr=1e-3)
rule = torch.randn(10, 3)
for step in range(60):
    source, other = torch.randn(32, 10), torch.randn(32, 10) + 1
    features, shifted = encoder(source), encoder(other)
    scores = torch.cat([judge(features.detach()), judge(shifted.detach())])
    domains = torch.cat([torch.ones(32, 1), torch.zeros(32, 1)])
    loss = F.binary_cross_entropy_with_logits(scores, domains)
    of_judge.zero_grad()
    loss.backward()
    of_judge.step()

    labels = (source @ rule).argmax(1)
    fooled = judge(shifted.detach())  # mistake
    # repaired: fooled = judge(shifted)
    adversarial = F.binary_cross_entropy_with_logits(fooled, torch.ones(32, 1))
    total = F.cross_entropy(classifier(features), labels) + 0.1 * adversarial
    of_encoder.zero_grad()
    total.backward()
    of_encoder.step()
    if step % 10 == 0:
        print(step, loss.item(), total.item())
