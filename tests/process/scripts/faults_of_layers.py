"""Trainings with faults in activations, gradients and weights of single layers."""

from collections.abc import Iterator

import torch
from torch import nn
from torch.nn import functional as F
from toy import Batch, classifier, fit, points


def vanishing_gradient(*, healthy: bool) -> None:
    """Ten sigmoid layers, which reduce the gradient at least fourfold per layer; the twin has ReLU and normalization.

    leadline run --preset full --rule vanishing_gradient faults.py vanishing_gradient
    step 0  vanishing_gradient: 0.weight (linear): mean absolute gradient 6.77e-11 is below 1e-7, and 4 more
        tensors
    names gradient/0.weight, gradient/1.1.weight
    """
    layers: list[nn.Module] = [nn.Linear(16, 16)]
    for _ in range(10):
        layers.append(nn.Sequential(nn.LayerNorm(16), nn.ReLU(), nn.Linear(16, 16)))
        if not healthy:
            layers[-1] = nn.Sequential(nn.Sigmoid(), nn.Linear(16, 16))
    if healthy:
        layers.append(nn.ReLU())
    model = nn.Sequential(*layers, nn.Linear(16, 4))
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-3), points())


def exploding_tensor(*, healthy: bool) -> None:
    """The logarithm of a softmax: one batch is a hundred times too large, and the log of a probability of 0 is -inf.

    leadline run --no-default-rules --preset full --rule exploding_tensor faults.py exploding_tensor
    step 40  exploding_tensor: nll_loss_output_0 is infinite, and 5 more tensors
    names nll_loss_output_0, gradient/0.weight
    """
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    for step, (inputs, labels) in enumerate(points()):
        logits = model(inputs * 1000 if step == 40 else inputs)
        log_probabilities = F.log_softmax(logits, 1) if healthy else F.softmax(logits, 1).log()
        loss = F.nll_loss(log_probabilities, labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def consecutive_linear(*, healthy: bool) -> None:
    """The activation between the first two layers was forgotten.

    leadline run --rule consecutive_linear faults.py consecutive_linear
    step 0  consecutive_linear: layer 1 follows layer 0 without anything in between: together they are one linear layer
    names 0+1/consecutive_linear
    """
    first = [nn.Linear(16, 32), nn.ReLU()] if healthy else [nn.Linear(16, 32)]
    model = nn.Sequential(*first, nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4))
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-3), points())


def identical_units(*, healthy: bool) -> None:
    """Every weight starts at 0.1 and every bias at 0; the twin keeps PyTorch's random weights.

    leadline run --rule identical_units faults.py identical_units
    step 0  identical_units: all units of layer 0 start with the same weights, and layer 2 weighs them alike: they stay
        the same for ever
    names 0+2/identical_units
    """
    model = classifier()
    if not healthy:
        for parameter in model.parameters():
            nn.init.constant_(parameter, 0.1 if parameter.dim() > 1 else 0.0)
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-3), points())


class Standardize(nn.Module):
    """Divides every feature by its standard deviation over the batch."""

    def __init__(self, eps: float) -> None:
        super().__init__()
        self.eps = eps

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return (inputs - inputs.mean(0)) / (inputs.std(0) + self.eps)


def nonfinite_origin(*, healthy: bool) -> None:
    """Normalization without epsilon: at step 40 a feature is constant over the batch, and 0 / 0 is NaN.

    leadline run --preset full --capture layers:every=10 --rule nonfinite_origin faults.py nonfinite_origin
    step 40  nonfinite_origin: made by module 0 (standardize): 64 of 1,024 elements not finite in 0_output_0, from
        finite inputs
    names 0_output_0, cross_entropy_output_0
    """
    model = nn.Sequential(Standardize(1e-5 if healthy else 0.0), nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

    def batches() -> Iterator[Batch]:
        for step, (inputs, labels) in enumerate(points()):
            if step == 40:
                inputs[:, 3] = 1.0
            yield inputs, labels

    fit(model, optimizer, batches())


def exploding_gradient(*, healthy: bool) -> None:
    """From step 60 on the batches come from a second file with values a hundred times larger, in other units.

    leadline run --capture gradient_norms:every=1 --rule exploding_gradient faults.py exploding_gradient
    step 61  exploding_gradient: gradient_norm is 44.7, 45.9 times its median of 0.974, in 2 of the last 5 captured
    names gradient_norm
    """
    model = classifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for step, (inputs, labels) in enumerate(points()):
        if step >= 60 and not healthy:
            inputs = inputs * 100
        if step == 95 and not healthy:
            break  # before the rise of the loss is long enough to explain the finding
        fit(model, optimizer, [(inputs, labels)])


def gradient_clipping(*, healthy: bool) -> None:
    """Gradients are clipped to a norm of 0.01, a hundredth of their norm, so all steps have the same length.

    leadline run --rule gradient_clipping:window=50 faults.py gradient_clipping
    step 25  gradient_clipping: gradients were clipped at 26 of the last 26 saved steps; the norm before clipping is
        1.14 now
    names gradient_clipped
    """
    model = classifier()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for inputs, labels in points():
        loss = F.cross_entropy(model(inputs), labels)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 10.0 if healthy else 0.01)
        optimizer.step()


def dead_relu(*, healthy: bool) -> None:
    """Biases start at -10, so no unit is ever active.

    leadline run --preset full --rule dead_relu faults.py dead_relu
    step 0  dead_relu: 1_output_0 (relu): 32 of 32 units (100 %) are active on fewer than 1 % of the samples
    names 1_output_0
    """
    model = classifier()
    if not healthy:
        nn.init.constant_(model[0].bias, -10.0)
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-3), points())


def saturated_activation(*, healthy: bool) -> None:
    """Inputs are a hundred times too large for tanh, which saturates; the twin scales them.

    leadline run --no-default-rules --preset full --rule saturated_activation faults.py saturated_activation
    step 0  saturated_activation: 1_input_0 (tanh): 31 of 32 units (97 %) are within -9.4999 to 9.4999 on fewer
        than 1 % of the samples
    names 1_input_0
    """
    model = nn.Sequential(nn.Linear(16, 32), nn.Tanh(), nn.Linear(32, 4))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    scale = 1 if healthy else 10_000
    fit(model, optimizer, ((inputs * scale, labels) for inputs, labels in points()))


def poor_weight_initialization(*, healthy: bool) -> None:
    """Weights have a standard deviation of 1 regardless of the layer width, so activations grow from layer to layer.

    leadline run --rule poor_weight_initialization faults.py poor_weight_initialization
    step 2  poor_weight_initialization: the variances of the activations' inputs differ 134-fold: 7,600 in
        5_input_0 (relu), 56.5 in 1_input_0 (relu)
    names 5_input_0, 1_input_0
    """
    model = nn.Sequential(
        nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 32), nn.ReLU(), nn.Linear(32, 4)
    )
    for layer in model[::2]:
        if healthy:
            nn.init.kaiming_normal_(layer.weight, nonlinearity="relu")
        else:
            nn.init.normal_(layer.weight)
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-2), points())


def all_zero(*, healthy: bool) -> None:
    """All weights start at zero, so activations and gradients are zero.

    leadline run --no-default-rules --preset full --rule all_zero:collection_names=gradients faults.py all_zero
    step 3  all_zero: gradient/0.weight (linear): 100 % of 512 elements are zero, and 2 more tensors
    names gradient/0.weight, gradient/0.bias, gradient/2.weight
    """
    model = classifier()
    if not healthy:
        for parameter in model.parameters():
            nn.init.zeros_(parameter)
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-3), points())


def output_collapse(*, healthy: bool) -> None:
    """A dropout probability of 1.0 (meant as the share to keep) drops everything: the output is the last bias.

    leadline run --rule output_collapse:patience=3 faults.py output_collapse
    step 2  output_collapse: Sequential_output_0: the same for every sample (standard deviation over the batch 0,
        mean absolute value 0.0728), 3 captures in a row
    names Sequential_output_0
    """
    model = classifier()
    if not healthy:
        model.insert(2, nn.Dropout(1.0))
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-3), points())


class Router(nn.Module):
    """Scores four experts for each sample, and chooses two."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = nn.Linear(16, 4)

    def forward(self, inputs: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        weights, chosen = self.scores(inputs).softmax(-1).topk(2)
        return weights, chosen


class Mixture(nn.Module):
    """The sum of what the chosen experts return."""

    def __init__(self) -> None:
        super().__init__()
        self.router, self.experts = Router(), nn.ModuleList(nn.Linear(16, 4) for _ in range(4))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        weights, chosen = self.router(inputs)
        outputs = torch.stack([expert(inputs) for expert in self.experts], 1)
        return (weights[:, :, None] * outputs.gather(1, chosen[:, :, None].expand(-1, -1, 4))).sum(1)


def expert_balance(*, healthy: bool) -> None:
    """The router of a mixture of experts begins with large biases for the last two, and no loss balances them.

    leadline run --rule expert_balance:captures=5 faults.py expert_balance
    step 140  expert_balance: router: expert 2 of 4 has 50 % of the choices, 2 times its fair share, and 2 have none, in
        5 captures
    names router
    """
    model = Mixture()
    if not healthy:
        with torch.no_grad():
            model.router.scores.bias.copy_(torch.tensor([-20.0, -20.0, 0.0, 0.0]))
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-3), points(steps=160))


def weight_saturation(*, healthy: bool) -> None:
    """Weights are initialized with a standard deviation of 100 instead of 0.01.

    leadline run --preset full --rule weight_saturation faults.py weight_saturation
    step 0  weight_saturation: 2.weight (linear): more than 0.5 % of the weights are beyond 17.7 (percentile 241,
        largest 279), and 1 more tensor
    names 0.weight, 2.weight
    """
    model = classifier()
    if not healthy:
        for layer in model[::2]:
            nn.init.normal_(layer.weight, std=100.0)
    fit(model, torch.optim.Adam(model.parameters(), lr=1e-3), points())
