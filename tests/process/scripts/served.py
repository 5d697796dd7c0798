"""A training as it runs on SageMaker: hyperparameters are arguments, and folders come from the environment."""

from __future__ import annotations

import argparse
import json
import os
import time

import torch

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, required=True)
parser.add_argument("--steps", type=int, default=60)
parser.add_argument("--pause", type=float, default=0.0)
parser.add_argument("--train", default=os.environ["SM_CHANNEL_TRAIN"])
options = parser.parse_args()

torch.manual_seed(0)
with open(os.path.join(options.train, "inputs.txt")) as file:
    inputs = torch.tensor([[float(line)] for line in file])
targets = 3 * inputs + 1
model = torch.nn.Sequential(torch.nn.Linear(1, 8), torch.nn.Tanh(), torch.nn.Linear(8, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=options.lr)
loss_function = torch.nn.MSELoss()
for _ in range(options.steps):
    optimizer.zero_grad()
    loss = loss_function(model(inputs), targets)
    loss.backward()
    optimizer.step()
    time.sleep(options.pause)
torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))
with open(os.path.join(os.environ["SM_OUTPUT_DATA_DIR"], "loss.txt"), "w") as file:
    file.write(f"{loss.item()}\n")
hosts = {"hosts": json.loads(os.environ["SM_HOSTS"]), "current_host": os.environ["SM_CURRENT_HOST"]}
with open(os.path.join(os.environ["SM_INPUT_CONFIG_DIR"], "resourceconfig.json")) as file:
    assert {**json.load(file), **hosts}["current_host"] == hosts["current_host"]
if len(hosts["hosts"]) > 1:
    parts = os.listdir(os.environ["SM_CHANNEL_PARTS"])
    with open(os.path.join(os.environ["SM_OUTPUT_DATA_DIR"], f"{hosts['current_host']}.json"), "w") as file:
        json.dump({**hosts, "parts": sorted(parts)}, file)
print("trained", options.steps, "steps")
