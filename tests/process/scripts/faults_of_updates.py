"""Trainings with faults in the training loop and the optimizer."""

import os
import tempfile
import time

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from gloo import destroy_process_group
from torch import nn
from torch.nn import functional as F
from torch.nn.parallel import DistributedDataParallel
from toy import classifier, fit, points


def missing_zero_grad(*, healthy: bool) -> None:
    """``zero_grad`` is missing: every update uses the sum of all gradients so far.

    leadline run --rule missing_zero_grad faults.py missing_zero_grad
    step 5  missing_zero_grad: Adam: 5 steps in a row began with the gradients of the previous step
    names Adam/steps_without_zero_grad
    """
    model = classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for inputs, labels in points():
        loss = F.cross_entropy(model(inputs), labels)
        if healthy:
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def no_learning(*, healthy: bool) -> None:
    """Fine-tuning: the head is replaced after the optimizer was created, which keeps updating the old one.

    leadline run --preset full --rule no_learning faults.py no_learning
    step 5  no_learning: 2.bias, and 1 more parameter: gradients at each of 6 captured steps (0 to 5), but no
        optimizer holds it
    names 2.weight/outside_optimizers, 2.bias/outside_optimizers
    """
    model = classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    model[2] = nn.Linear(32, 4)
    if healthy:
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    fit(model, optimizer, points())


def no_gradient(*, healthy: bool) -> None:
    """The loss is given the rounded output, and rounding has a gradient of 0 everywhere.

    leadline run --rule no_gradient faults.py no_gradient
    step 2  no_gradient: every gradient is exactly 0 at each of 3 captured steps (0 to 2)
    names gradient_norm
    """
    model = classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for inputs, labels in points():
        output = model(inputs)
        loss = F.cross_entropy(output if healthy else output.round(), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


class Scaled(nn.Module):
    """A classifier whose scores are scaled by a number of the module."""

    def __init__(self) -> None:
        super().__init__()
        self.layers, self.step = classifier(), 0

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.layers(inputs) * (1 + 1e-3 * self.step)


class Branches(nn.Module):
    """A classifier with a second branch."""

    def __init__(self, is_used: bool) -> None:
        super().__init__()
        self.first, self.second, self.head = nn.Linear(16, 32), nn.Linear(16, 32), nn.Linear(32, 4)
        self.is_used = is_used

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        hidden = self.first(inputs)
        if self.is_used:
            hidden = hidden + self.second(inputs)
        return self.head(F.relu(hidden))


def unused_parameter(*, healthy: bool) -> None:
    """A layer is created and passed to the optimizer, but forward() never calls it.

    leadline run --preset full --rule unused_parameter faults.py unused_parameter
    step 50  unused_parameter: second.weight, and 1 more parameter: no gradient at each of 8 captured steps (0 to 50),
        though an optimizer holds it
    names second.weight, second.bias
    """
    model = Branches(is_used=healthy)
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-3), points())


def lost_progress(*, healthy: bool) -> None:
    """The optimizer is made in every epoch: Adam begins each of them without its moments.

    leadline run --rule lost_progress faults.py lost_progress
    step 80  lost_progress: Adam was made anew 3 times over the same parameters, and each began without the state of
        the one before
    names Adam/made_anew
    """
    model = classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for _ in range(8):
        if not healthy:
            optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        fit(model, optimizer, points(24))


def eval_in_train_mode(*, healthy: bool) -> None:
    """model.train() is missing after a validation: from then on dropout is disabled.

    leadline run --rule eval_in_train_mode faults.py eval_in_train_mode
    step 60  eval_in_train_mode: Sequential: 11 training steps in a row with all dropout and batch normalization in
        evaluation mode
    names Sequential/train_steps_in_eval_mode
    """
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Dropout(0.2), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, (inputs, labels) in enumerate(points()):
        if step == 50:
            model.eval()
            with torch.no_grad():
                F.cross_entropy(model(inputs), labels)
            model.train(healthy)
        fit(model, optimizer, [(inputs, labels)])


def recompilation(*, healthy: bool) -> None:
    """A compiled function is given the number of the step, which is compiled into it.

    leadline run --rule recompilation faults.py recompilation
    step 10  recompilation: forward (faults_of_updates.py:27) was compiled 8 times and runs uncompiled since: 8 is the
        limit; what did not hold was mostly self.step == …
    names forward (faults_of_updates.py:27)
    """
    model = Scaled()
    compiled = torch.compile(model, backend="eager")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, (inputs, labels) in enumerate(points()):
        model.step = 0 if healthy else step
        fit(compiled, optimizer, [(inputs, labels)])


def broken_averages(*, healthy: bool) -> None:
    """Batch normalization has a momentum of 0: its running averages stay at 0 and 1.

    leadline run --rule broken_averages faults.py broken_averages
    step 2  broken_averages: the running averages of 1 are exactly 0 and 1, as at the start, though it trains:
        evaluation uses them
    names 1
    """
    normalization = nn.BatchNorm1d(32, momentum=0.1 if healthy else 0.0)
    model = nn.Sequential(nn.Linear(16, 32), normalization, nn.ReLU(), nn.Linear(32, 4))
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-3), points())


def learning_rate(*, healthy: bool) -> None:
    """The learning rate is 1e-9 instead of 1e-3: training takes a million times as many steps.

    leadline run --no-default-rules --preset full --rule learning_rate faults.py learning_rate
    step 40  learning_rate: median update ratio 1.37e-9, below 1e-6 for 10 captured steps in a row (nearest
        4.86e-9)
    """
    model = classifier()
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-3 if healthy else 1e-9), points())


def weight_update_ratio(*, healthy: bool) -> None:
    """Weights are initialized 10,000 times too small: the first Adam update is a hundred times larger than they are.

    leadline run --preset full --rule weight_update_ratio faults.py weight_update_ratio
    step 0  weight_update_ratio: 0.weight (linear): update ratio 67.1 is above 10, and 3 more tensors
    names 0.weight, 2.weight
    """
    model = classifier()
    if not healthy:
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.mul_(1e-4)
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-3), points())


def skipped_steps(*, healthy: bool) -> None:
    """The gradient scaler doubles its scale after 2 good steps instead of 2,000: every third step overflows.

    leadline run --rule skipped_steps faults.py skipped_steps
    step 37  skipped_steps: 11 of the last 100 training steps were skipped
    """
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", growth_interval=2000 if healthy else 2)
    for inputs, labels in points():
        with torch.autocast("cpu", dtype=torch.float16):
            loss = F.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def stalled_training(*, healthy: bool) -> None:
    """At step 30 the data loader hangs.

    leadline run --rule stalled_training:threshold=5 faults.py stalled_training
    step 29  stalled_training: nothing new since step 29, for more than 5 s
    """
    model = classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, batch in enumerate(points()):
        if step == 30 and not healthy:
            time.sleep(9)
        fit(model, optimizer, [batch])


def replica_divergence(*, healthy: bool) -> None:
    """Only rank 0 of two loads an older checkpoint at step 35; the twin loads it on both.

    leadline run --preset full --rule replica_divergence faults.py replica_divergence
    step 40  replica_divergence: 0.weight (linear), and 3 more parameters: 2 different versions on 2 workers at
        step 40; rank1-100 differs
    names 0.weight, 2.weight
    """
    with tempfile.TemporaryDirectory() as folder:
        mp.spawn(replica, (os.path.join(folder, "meeting"), healthy), nprocs=2)


def replica(rank: int, meeting: str, healthy: bool) -> None:
    dist.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = DistributedDataParallel(classifier())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    torch.manual_seed(rank)
    for step, batch in enumerate(points()):
        if step == 10:
            checkpoint = {name: tensor.clone() for name, tensor in model.state_dict().items()}
        if step == 35 and (rank == 0 or healthy):
            model.load_state_dict(checkpoint)
        fit(model, optimizer, [batch])
    destroy_process_group()
