"""A script as users of SageMaker Debugger wrote it; it also keeps what it computed, for the comparison."""

import argparse

import numpy as np
import smdebug.pytorch as smd
import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.optim as optim
from smdebug import SaveConfig, modes
from smdebug.core.reduction_config import ReductionConfig

truth = {}
counts = {"train": 0, "eval": 0}


def keep(step, name, tensor):
    truth[f"{step}|{name}"] = tensor.detach().numpy().copy()


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.add_module("conv1", nn.Conv2d(1, 4, 3, 1))
        self.add_module("relu0", nn.ReLU())
        self.add_module("fc1", nn.Linear(4 * 6 * 6, 16))
        self.add_module("relu1", nn.ReLU())
        self.add_module("fc2", nn.Linear(16, 10))

    def forward(self, x):
        x = self.relu0(self.conv1(x))
        x = x.view(-1, 4 * 6 * 6)
        x = self.relu1(self.fc1(x))
        return F.log_softmax(self.fc2(x), dim=1)


def train(args, model, device, optimizer, loss_fn, hook):
    hook.set_mode(modes.TRAIN)
    model.train()
    for _ in range(args.steps):
        data, target = torch.rand(8, 1, 8, 8).to(device), torch.randint(0, 10, (8,)).to(device)
        step = counts["train"] + counts["eval"]
        for name, parameter in model.named_parameters():
            keep(step, f"Net_{name}", parameter)
        optimizer.zero_grad()
        output = model(data)
        loss = loss_fn(output, target)
        loss.backward()
        for name, parameter in model.named_parameters():
            keep(step, f"gradient/Net_{name}", parameter.grad)
        keep(step, "Net_output_0", output)
        keep(step, "NLLLoss_output_0", loss)
        hook.save_scalar("correct", output.argmax(1).eq(target).sum().item())
        optimizer.step()
        counts["train"] += 1


def test(model, device, loss_fn, hook):
    hook.set_mode(modes.EVAL)
    model.eval()
    with torch.no_grad():
        for _ in range(3):
            data, target = torch.rand(8, 1, 8, 8).to(device), torch.randint(0, 10, (8,)).to(device)
            output = model(data)
            loss = loss_fn(output, target)
            step = counts["train"] + counts["eval"]
            keep(step, "Net_output_0", output)
            keep(step, "NLLLoss_output_0", loss)
            counts["eval"] += 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--smdebug_path", type=str, default="/opt/ml/output/tensors")
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--truth", type=str)
    args = parser.parse_args()
    torch.manual_seed(2)
    device = torch.device("cpu")
    model = Net().to(device)
    loss_fn = nn.NLLLoss()
    hook = smd.Hook(
        out_dir=args.smdebug_path,
        save_config=SaveConfig(save_interval=4, save_steps=[1]),
        include_collections=["weights", "gradients", "biases", "net", "relu"],
        export_tensorboard=True,
    )
    hook.get_collection("net").include("^Net_output")
    hook.get_collection("relu").include("relu.*output")
    hook.get_collection("relu").reduction_config = ReductionConfig(reductions=["mean", "min"], norms=["l2"])
    hook.register_module(model)
    hook.register_loss(loss_fn)
    optimizer = optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for _ in range(2):
        train(args, model, device, optimizer, loss_fn, hook)
        test(model, device, loss_fn, hook)
    hook.close()
    for name, parameter in model.named_parameters():
        keep("end", name, parameter)
    np.savez(args.truth, **truth)


if __name__ == "__main__":
    main()
