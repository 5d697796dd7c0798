"""Trains eight steps with a hook whose ``out_dir`` is the first argument, and prints what a trial says meanwhile."""

import sys

import smdebug.pytorch as smd
import torch
from smdebug.trials import create_trial

torch.manual_seed(0)
torch.set_num_threads(1)
model, loss_of = torch.nn.Sequential(torch.nn.Linear(4, 3)), torch.nn.CrossEntropyLoss()
hook = smd.Hook(out_dir=sys.argv[1], save_config=smd.SaveConfig(save_interval=2), include_collections=["weights"])
hook.register_module(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(8):
    optimizer.zero_grad()
    loss_of(model(torch.randn(8, 4)), torch.randint(0, 3, (8,))).backward()
    optimizer.step()
    hook.save_scalar("number", step)
if sys.argv[2:] == ["reads"]:
    print(create_trial(sys.argv[1]).tensor("scalar/number").steps())
hook.close()
