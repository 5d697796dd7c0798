"""A script as the notebooks of SageMaker Debugger have them for PyTorch: MNIST, here generated images."""

import argparse
import json
import os
import time

import smdebug.pytorch as smd
import torch
import torch.nn as nn
import torch.optim as optim


class SaliencyHook(smd.Hook):
    """Saves the gradients of images, as the notebook on class activation maps does."""

    def image_gradients(self, pictures):
        pictures.register_hook(self.backward_hook("image"))

    def forward_hook(self, module, inputs, outputs):
        name = self.module_maps[module]
        self._write_inputs(name, inputs)
        if self.mode == smd.modes.EVAL and outputs.requires_grad:
            outputs.register_hook(self.backward_hook(name + "_output"))
        self._write_outputs(name, outputs)
        self.last_saved_step = self.step


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.add_module("conv1", nn.Conv2d(1, 8, 3))
        self.add_module("relu0", nn.ReLU())
        self.add_module("fc1", nn.Linear(8 * 6 * 6, 32))
        self.add_module("relu1", nn.ReLU())
        self.add_module("fc2", nn.Linear(32, 4))

    def forward(self, x):
        x = self.relu0(self.conv1(x))
        x = self.relu1(self.fc1(x.flatten(1)))
        return self.fc2(x)


def images(count, noise, shares, seed):
    """Return images of four classes, and labels of which a share is wrong."""
    generator = torch.Generator().manual_seed(seed)
    kinds = torch.randn(4, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    labels = torch.multinomial(torch.tensor(shares), count, replacement=True, generator=generator)
    pictures = kinds[labels] + 0.5 * torch.randn(count, 1, 8, 8, generator=generator)
    wrong = torch.rand(count, generator=generator) < noise
    labels[wrong] = torch.randint(0, 4, (int(wrong.sum()),), generator=generator)
    return pictures, labels


def train(args, model, data, optimizer, loss_fn, hook):
    model.train()
    hook.set_mode(smd.modes.TRAIN)
    for pictures, labels in zip(data[0].split(args.batch_size), data[1].split(args.batch_size), strict=True):
        optimizer.zero_grad()
        loss = loss_fn(model(args.scale * pictures), labels)
        loss.backward()
        optimizer.step()
        time.sleep(args.pause)


def test(args, model, data, loss_fn, hook):
    model.eval()
    hook.set_mode(smd.modes.EVAL)
    for pictures, labels in zip(data[0].split(args.batch_size), data[1].split(args.batch_size), strict=True):
        if args.saliency:
            pictures.requires_grad_()
            hook.image_gradients(pictures)
            output = model(pictures)
            loss_fn(output, labels)
            output.max(1).values.sum().backward()
            continue
        with torch.no_grad():
            loss_fn(model(pictures), labels)


def checkpoint_path():
    if "CHECKPOINT_CONFIG_FILE_PATH" not in os.environ:
        return None
    with open(os.environ["CHECKPOINT_CONFIG_FILE_PATH"]) as file:
        return os.path.join(json.load(file)["LocalPath"], "last.pt")


def restore(model, path):
    """Load a checkpoint, if there is one; return the first epoch."""
    if path is None or not os.path.exists(path):
        return 0
    stored = torch.load(path)
    model.load_state_dict(stored["model"])
    return stored["epoch"] + 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--lr", type=float, default=0.05)
    parser.add_argument("--momentum", type=float, default=0.0)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--noise", type=float, default=0.0)
    parser.add_argument("--shares", type=str, default="1,1,1,1")
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--init", type=str, default="")
    parser.add_argument("--saliency", type=str, default="")
    parser.add_argument("--pause", type=float, default=0.0)
    parser.add_argument("--sleep", type=float, default=0.0)
    args = parser.parse_args()
    torch.manual_seed(1)
    shares = [float(share) for share in args.shares.split(",")]
    trained_on, tested_on = images(args.samples, args.noise, shares, 1), images(64, args.noise, shares, 2)
    model, loss_fn = Net(), nn.CrossEntropyLoss()
    if args.init == "faint":  # the gradients of the layers before it vanish
        nn.init.normal_(model.fc2.weight, std=1e-10)
    if args.init == "uniform":
        for parameter in model.parameters():
            nn.init.uniform_(parameter, 0.0, 1.0)
    hook = (SaliencyHook if args.saliency else smd.Hook).create_from_json_file()
    hook.register_module(model)
    hook.register_loss(loss_fn)
    optimizer = optim.SGD(model.parameters(), lr=args.lr, momentum=args.momentum)
    checkpoint = checkpoint_path()
    first = restore(model, checkpoint)
    print("first epoch", first, flush=True)
    for epoch in range(first, args.epochs):
        train(args, model, trained_on, optimizer, loss_fn, hook)
        test(args, model, tested_on, loss_fn, hook)
        if checkpoint:
            torch.save({"model": model.state_dict(), "epoch": epoch}, f"{checkpoint}.new")
            os.replace(f"{checkpoint}.new", checkpoint)
        time.sleep(args.sleep)
    torch.save(model.state_dict(), os.path.join(os.environ["SM_MODEL_DIR"], "model.pt"))


if __name__ == "__main__":
    main()
