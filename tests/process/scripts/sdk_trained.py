"""A training that knows nothing of SageMaker but its variables."""

import argparse
import os

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, required=True)
options = parser.parse_args()

model = torch.nn.Linear(2, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(options.steps):
    optimizer.zero_grad()
    torch.nn.functional.mse_loss(model(torch.randn(4, 2)), torch.zeros(4, 1)).backward()
    optimizer.step()
torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))
print("trained", os.environ["SM_HP_STEPS"], "steps on", os.environ["SM_CURRENT_INSTANCE_TYPE"])
