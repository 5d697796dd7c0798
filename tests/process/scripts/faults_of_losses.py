"""Trainings with faults in the loss and in metrics."""

import torch
from torch import nn
from torch.nn import functional as F
from toy import classifier, fit, points, validate

import leadline


def loss_at_start(*, healthy: bool) -> None:
    """The last layer is initialized with far too large weights: the untrained model is overconfident.

    leadline run --rule loss_at_start faults.py loss_at_start
    step 9  loss_at_start: cross_entropy_output_0: each of the first 10 captured losses is at least 10.7, 7.71 times
        that of guessing among 4 classes (ln 4 = 1.39)
    names cross_entropy_output_0
    """
    model = classifier()
    if not healthy:
        nn.init.normal_(model[2].weight, std=3.0)
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-3), points())


def loss_not_decreasing(*, healthy: bool) -> None:
    """The learning rate is 1e-7: the loss falls by less than 0.1 % in ten steps.

    leadline run --rule loss_not_decreasing faults.py loss_not_decreasing
    step 19  loss_not_decreasing: cross_entropy_output_0 fell by 0.00121 % from step 9 to 19 (1.52 to 1.52)
    names cross_entropy_output_0
    """
    model = classifier()
    whole = next(points(1, size=500))
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-2 if healthy else 1e-7), [whole] * 60)


def loss_spike(*, healthy: bool) -> None:
    """At step 60 a schedule raises the learning rate a thousandfold, and the training diverges.

    leadline run --rule loss_spike faults.py loss_spike
    step 65  loss_spike: cross_entropy_output_0 jumped from 0.5 to 50 and stayed above 1.5 for 5 steps
    names cross_entropy_output_0
    """
    model = classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, batch in enumerate(points()):
        optimizer.param_groups[0]["lr"] = 1.0 if step >= 60 and not healthy else 1e-3
        fit(model, optimizer, [batch])


def diverging_loss(*, healthy: bool) -> None:
    """The gradients of 16 parts of a batch are added up, none of their losses is divided, and the rate warms up.

    leadline run --rule diverging_loss faults.py diverging_loss
    step 99  diverging_loss: cross_entropy_output_0 rose from 1.17 to 7.05, the median over its last 50 values, and
        does not fall: 3.49 times always guessing by the labels' shares (2.02)
    names cross_entropy_output_0
    """
    model = nn.Sequential(nn.Linear(32, 64), nn.Tanh(), nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 8))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.6, momentum=0.9)
    warm_up = torch.optim.lr_scheduler.LinearLR(optimizer, 0.01, total_iters=110)
    teacher = torch.randn(32, 8)
    for _ in range(110):
        optimizer.zero_grad()
        for _ in range(16):
            inputs = torch.randn(16, 32)
            loss = F.cross_entropy(model(inputs), (inputs @ teacher).argmax(1))
            (loss / 16 if healthy else loss).backward()
        optimizer.step()
        warm_up.step()


def loss_input(*, healthy: bool) -> None:
    """The model ends with a softmax, and cross entropy applies softmax again.

    leadline run --rule loss_input faults.py loss_input
    step 0  loss_input: cross entropy takes logits and applies softmax itself, but is given the output of a softmax
    names cross_entropy/activation
    """
    model = classifier()
    if not healthy:
        model.append(nn.Softmax(dim=1))
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-3), points())


def ignored_labels(*, healthy: bool) -> None:
    """In each fourth batch every label is cut off, and the loss is 0.

    leadline run --rule ignored_labels faults.py ignored_labels
    step 11  ignored_labels: at 3 of the last 12 steps (3 to 11): 100 % of the labels that cross entropy is given are
        -100, which it ignores: there is nothing to learn from
    names cross_entropy/ignored_share
    """
    model = classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, (inputs, labels) in enumerate(points()):
        kept = torch.where(torch.arange(len(labels)) % 4 == step % 4, -100, labels)
        given = torch.full_like(labels, -100) if step % 4 == 3 and not healthy else kept
        loss = F.cross_entropy(model(inputs), given, reduction="sum") / len(labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def loss_choice(*, healthy: bool) -> None:
    """A classifier of two classes is trained with the squared error; the twin with binary cross entropy.

    leadline run --rule loss_choice faults.py loss_choice
    step 1  loss_choice: squared error on labels that are just 0 and 1: a classification by a regression loss, whose
        gradient vanishes where the model is confidently wrong
    names squared_error/are_labels_binary
    """
    model = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for inputs, labels in points():
        classes = (labels > 1).float()
        output = model(inputs).squeeze(1)
        loss = F.binary_cross_entropy_with_logits(output, classes) if healthy else F.mse_loss(output, classes)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def metric_not_improving(*, healthy: bool) -> None:
    """The labels are shuffled but the inputs are not: only the label frequencies can be learned.

    leadline run --rule metric_not_improving faults.py metric_not_improving
    step 299  metric_not_improving: cross_entropy_output_0 stays at 1.39 over the last 152 values, no better than
        always guessing by the labels' shares (1.38)
    names cross_entropy_output_0
    """
    model = classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for inputs, labels in points(steps=340):
        fit(model, optimizer, [(inputs, labels if healthy else labels[torch.randperm(len(labels))])])


def overfit(*, healthy: bool) -> None:
    """64 examples are repeated and memorized; the twin has new examples at every step.

    leadline run --rule overfit:patience=3 faults.py overfit
    step 29  overfit: cross_entropy_output_0: validation loss 0.294 is 19 % above training loss 0.246
    names cross_entropy_output_0
    """
    model = classifier(width=64)
    optimizer = torch.optim.Adam(model.parameters(), lr=3e-3)
    stream = points()
    held_out, few = [next(stream) for _ in range(4)], next(stream)
    for _ in range(12):
        fit(model, optimizer, [next(stream) if healthy else few for _ in range(5)])
        validate(model, held_out)


def overtraining(*, healthy: bool) -> None:
    """The training continues long after the loss has converged; the twin stops when validation does not improve.

    leadline run --rule overtraining:patience_train=30,patience_validation=5 faults.py overtraining
    step 49  overtraining: cross_entropy_output_0: no new best in 5 saved validation losses: 0.205 now, 0.186 at
        step 24
    names cross_entropy_output_0
    """
    model = classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    stream = points(size=200)
    held_out, best = next(stream), float("inf")
    for _ in range(20):
        fit(model, optimizer, [next(stream) for _ in range(5)])
        loss = validate(model, [held_out])
        if healthy and loss > best - 0.01:
            break
        best = min(best, loss)


def generalization_gap(*, healthy: bool) -> None:
    """Features and labels of the held-out examples do not belong together; the twin evaluates those that it trains on.

    leadline run faults.py generalization_gap
    step 128  generalization_gap: overfitting: validation loss was 1.07 in the first evaluation and is 1.19 at step 127,
        while the mean training loss fell from 0.709 to 0.0209
    names mse_loss_output_0
    """
    model = nn.Sequential(nn.Linear(16, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    few = [(inputs, inputs[:, :1] * inputs[:, 1:2]) for inputs in torch.randn(4, 32, 16)]
    held_out = few if healthy else [(inputs, torch.randn(32, 1)) for inputs in torch.randn(4, 32, 16)]
    for _ in range(20):
        model.train()
        for inputs, targets in few * 4:
            loss = F.mse_loss(model(inputs), targets)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for inputs, targets in held_out:
                F.mse_loss(model(inputs), targets)


def rising_validation_loss(*, healthy: bool) -> None:
    """64 examples are learned by heart; the twin has new examples at every step.

    leadline run faults.py rising_validation_loss
    step 64  rising_validation_loss: overfitting since step 7: validation loss 0.988 → 2.33 at step 63, while the mean
        training loss fell from 0.975 to 0.00206
    names cross_entropy_output_0
    """
    model = classifier(width=64)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    stream = points(steps=400, spread=3.0)
    held_out, few = [next(stream) for _ in range(4)], next(stream)
    for _ in range(20):
        fit(model, optimizer, [next(stream) if healthy else few for _ in range(8)])
        validate(model, held_out)


def similar_across_runs(*, healthy: bool) -> None:
    """A run that should repeat another one, without a seed; the twin is bit-identical.

    leadline run --preset full --name first faults.py similar_across_runs --healthy
    leadline run --preset full --rule similar_across_runs:other_trials=first faults.py similar_across_runs
    step 0  similar_across_runs: 2.bias (linear): min -0.163769, in first -0.0310502, and 20 more tensors
    names 0.weight, cross_entropy_output_0
    """
    torch.manual_seed(0 if healthy else 1)
    model = classifier()
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-3), points())


def broken_metric(*, healthy: bool) -> None:
    """From step 60 on no label counts: the sum of no losses, divided by at least 1, is 0.

    leadline run faults.py broken_metric
    step 69  broken_metric: train/loss has been exactly 0 in each of its 10 values since step 60, and was 0.91 before
    names train/loss
    """
    model = classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, (inputs, labels) in enumerate(points(steps=100)):
        counted = torch.full((len(labels),), float(healthy or step < 60))
        losses = F.cross_entropy(model(inputs), labels, reduction="none")
        loss = (losses * counted).sum() / counted.sum().clamp(min=1)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        leadline.log(**{"train/loss": loss.item()})
