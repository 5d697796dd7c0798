"""Trainings with faults in the loss and in metrics."""

import torch
from torch import nn
from toy import classifier, fit, points, validate


def loss_at_start(*, healthy: bool) -> None:
    """The last layer is initialized with far too large weights: the untrained model is overconfident.

    leadline run --rule loss_at_start faults.py loss_at_start
    step 2  loss_at_start: cross_entropy_output_0: mean of the first 3 losses is 59.01, 42.6 times that of guessing
        among 4 classes (ln 4 = 1.386)
    names cross_entropy_output_0
    """
    model = classifier()
    if not healthy:
        nn.init.normal_(model[2].weight, std=10.0)
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


def probabilities_as_logits(*, healthy: bool) -> None:
    """The model ends with a softmax, and cross entropy applies softmax again.

    leadline run --rule probabilities_as_logits faults.py probabilities_as_logits
    step 2  probabilities_as_logits: cross_entropy_input_0 is given as logits but looks like probabilities: no
        element below 0, rows that sum to 1, 3 captures in a row
    names cross_entropy_input_0
    """
    model = classifier()
    if not healthy:
        model.append(nn.Softmax(dim=1))
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-3), points())


def metric_not_improving(*, healthy: bool) -> None:
    """The labels are shuffled but the inputs are not: only the label frequencies can be learned.

    leadline run --rule metric_not_improving faults.py metric_not_improving
    step 39  metric_not_improving: cross_entropy_output_0 stays at 1.433 over the last 20 values, no better than
        always guessing by the labels' shares (1.383)
    names cross_entropy_output_0
    """
    model = classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for inputs, labels in points():
        fit(model, optimizer, [(inputs, labels if healthy else labels[torch.randperm(len(labels))])])


def overfit(*, healthy: bool) -> None:
    """64 examples are repeated and memorized; the twin has new examples at every step.

    leadline run --rule overfit:patience=3 faults.py overfit
    step 29  overfit: cross_entropy_output_0: validation loss 0.2944 is 19.5% above training loss 0.2464
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
    step 49  overtraining: cross_entropy_output_0: no new best in 5 saved validation losses: 0.2052 now, 0.1865 at
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


def similar_across_runs(*, healthy: bool) -> None:
    """A run that should repeat another one, without a seed; the twin is bit-identical.

    leadline run --preset full --name first faults.py similar_across_runs --healthy
    leadline run --preset full --rule similar_across_runs:other_trials=first faults.py similar_across_runs
    step 0  similar_across_runs: 2.bias: min -0.163769, in first -0.0310502, and 20 more tensors
    names 0.weight, cross_entropy_output_0
    """
    torch.manual_seed(0 if healthy else 1)
    model = classifier()
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-3), points())
