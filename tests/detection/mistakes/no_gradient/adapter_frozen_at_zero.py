"""An encoder with adapters, of which everything without "lora_a" in its name is frozen.

Mistake: lora_b is frozen as well, at its zeros.
"""

import torch
import torch.nn as nn


class LoraLinear(nn.Linear):
    def __init__(self, inputs, outputs, rank=4):
        super().__init__(inputs, outputs)
        self.lora_a = nn.Linear(inputs, rank, bias=False)
        self.lora_b = nn.Linear(rank, outputs, bias=False)
        nn.init.zeros_(self.lora_b.weight)

    def forward(self, x):
        return super().forward(x) + self.lora_b(self.lora_a(x))


class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = LoraLinear(12, 24), LoraLinear(24, 24)
        self.classifier = nn.Linear(24, 2)

    def forward(self, x):
        return self.classifier(torch.tanh(self.second(torch.tanh(self.first(x)))))


model = Encoder()
trained = ("lora_a", "classifier")  # mistake
# repaired: trained = ("lora_a", "lora_b", "classifier")
for name, parameter in model.named_parameters():
    parameter.requires_grad = any(part in name for part in trained)
optimizer = torch.optim.Adam(filter(lambda p: p.requires_grad, model.parameters()), lr=3e-3)
for step in range(160):
    x = torch.randn(40, 12)
    y = (x[:, 0] + x[:, 1] > 0).long()
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(step, loss.item())
