"""Small trainings for ``leadline check``, each a difficulty for the copy.

Arguments: the kind. Prints a digest of the final weights.
"""

import glob
import hashlib
import os
import signal
import sys
import time

import torch
from torch import nn

KIND = sys.argv[1] if len(sys.argv) > 1 else "plain"
STEPS = 520 if KIND == "late" else 6


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
        if KIND == "strided":
            # windows of four, three apart: the last of eight numbers is left over
            self.body = nn.Sequential(nn.Conv1d(1, 4, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))

    def forward(self, x):
        if not self.training:
            if KIND == "sleeps":
                time.sleep(3600)
            while KIND == "computes":
                pass
            if KIND == "exhausts":
                torch.empty(1 << 50)
            if KIND == "raises":
                raise ValueError("only trained, never evaluated")
            if KIND == "killed":
                os.kill(os.getpid(), signal.SIGKILL)
        return self.body(x)


def batches():
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(STEPS * 16, 8, generator=generator)
    y = (x[:, 0] > 0).long() + (x[:, 1] > 0).long()
    if KIND == "late":
        x[16 * STEPS // 2 :] = 0.5
    data = torch.utils.data.TensorDataset(x[:, None] if KIND == "strided" else x, y)
    return torch.utils.data.DataLoader(data, 16, num_workers=2 if KIND == "workers" else 0)


def leave_time(loader):
    """Yield the batches; before a later check, leave the one before the time that it may take, if it has not ended.

    Its results are recorded at a step.
    """
    for step, batch in enumerate(loader):
        for checked, later in ((2, 101), (101, 501)):
            if later - 20 <= step < later and len(sys.argv) > 2 and not is_recorded(checked):
                time.sleep(2)
        yield batch


def is_recorded(checked):
    """Return whether there are results of a checked step."""
    paths = glob.glob(f"{sys.argv[2]}/*/checks/*.json")
    return any(f'"step":{checked},' in open(path).read().replace(" ", "") for path in paths)


class Judge(nn.Module):
    """Judges 16 numbers; ``noise`` is not saved in one of the two that are trained."""

    def __init__(self, inputs, noise=None):
        super().__init__()
        self.body = nn.Linear(inputs, 16)
        self.noise = noise

    def forward(self, x):
        return self.body(x) if self.noise is None else self.body(x + self.noise)


def train_two():
    torch.manual_seed(0)
    generator, critic = Judge(8), Judge(16, torch.randn(16, 16))
    first, second = (torch.optim.Adam(model.parameters(), 1e-3) for model in (critic, generator))
    for _ in range(6):
        made = generator(torch.randn(16, 8))
        first.zero_grad()
        (critic(torch.randn(16, 16)).mean() - critic(made.detach()).mean()).backward()
        first.step()
        second.zero_grad()
        critic(made).mean().backward()
        second.step()


def functional_loss(parameters, model, x, y):
    return nn.functional.cross_entropy(torch.func.functional_call(model, parameters, (x,)), y)


def train_functional():
    """Train with gradients of torch.func."""
    torch.manual_seed(0)
    model = Net()
    optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    for x, y in batches():
        parameters = dict(model.named_parameters())
        gradients = torch.func.grad(functional_loss)(parameters, model.eval(), x, y)
        for name, parameter in parameters.items():
            parameter.grad = gradients[name].detach()
        optimizer.step()
    print("weights", [parameter.sum().item() for parameter in model.parameters()])


def main():
    if KIND == "never":
        print("nothing to train")
        return
    if KIND == "fails":
        raise SystemExit("no data")
    torch.manual_seed(0)
    signals = []
    if KIND == "waits":
        signal.signal(signal.SIGCHLD, lambda *_: signals.append(1))
    model = Net()
    called = torch.compile(model, backend="eager") if KIND == "compiled" else model
    if KIND == "lbfgs":
        optimizer = torch.optim.LBFGS(model.parameters(), max_iter=4)
    else:
        optimizer = torch.optim.Adam(model.parameters(), 1e-2)
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0) if KIND == "scaled" else None
    criterion = nn.CrossEntropyLoss()
    for x, y in leave_time(batches()) if KIND == "late" else batches():
        if KIND == "lbfgs":

            def closure(x=x, y=y):
                optimizer.zero_grad()
                loss = criterion(called(x), y)
                loss.backward()
                return loss

            optimizer.step(closure)
            continue
        optimizer.zero_grad()
        parts = 2 if KIND == "accumulated" else 1
        for part, labels in zip(x.chunk(parts), y.chunk(parts), strict=True):
            with torch.autocast("cpu", torch.bfloat16, enabled=KIND in ("autocast", "scaled")):
                loss = criterion(called(part), labels)
            (scaler.scale(loss) if scaler else loss).backward()
        if scaler:
            scaler.step(optimizer)
            scaler.update()
        else:
            optimizer.step()
    if KIND == "waits":
        try:
            os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            print("no child is left")
    values = torch.cat([parameter.detach().flatten() for parameter in model.parameters()])
    print("weights", hashlib.sha256(values.numpy().tobytes()).hexdigest(), torch.get_rng_state().sum().item())


if __name__ == "__main__":
    {"two": train_two, "functional": train_functional}.get(KIND, main)()
