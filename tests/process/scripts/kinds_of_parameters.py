"""Kinds of training with unusual parameters, modules and modes."""

import copy
import io
import pickle
from collections.abc import Iterable
from typing import Any

import torch
from diary import STEPS, Diary, digest_of, kind, net, plain_step, squares
from torch import nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode


class Partly(nn.Module):
    """A layer used twice, an unused layer, a scalar parameter and an empty one."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(4, 3)
        self.again = nn.Linear(3, 3)
        self.unused = nn.Linear(5, 5)
        self.gain = nn.Parameter(torch.tensor(1.5))
        self.nothing = nn.Parameter(torch.empty(0))
        self.alias = self.again

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return self.gain * self.alias(self.again(self.first(inputs))) + self.nothing.sum()


@kind
def partly(diary: Diary) -> Iterable[nn.Module]:
    model = Partly()
    optimizer = torch.optim.Adam(model.parameters())
    for step in range(STEPS):
        plain_step(diary, step, model, optimizer, squares(model))
    return [model]


@kind
def joined(diary: Diary) -> Iterable[nn.Module]:
    """Two models of one class in one optimizer."""
    models = [nn.Linear(4, 4), nn.Linear(4, 3)]
    optimizer = torch.optim.SGD([parameter for model in models for parameter in model.parameters()], lr=0.1)
    for step in range(STEPS):
        loss = (models[1](models[0](torch.randn(6, 4))) - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        diary.loss(step, loss)
        for model, prefix in zip(models, ("Linear_", "Linear_1_"), strict=True):
            diary.update(step, model, prefix=prefix)
        optimizer.step()
    return models


class Complex(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.turn = nn.Parameter(torch.randn(4, 3, dtype=torch.complex64))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        return (inputs.to(torch.complex64) @ self.turn).abs()


@kind
def complex_numbers(diary: Diary) -> Iterable[nn.Module]:
    model = Complex()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    for step in range(STEPS):
        plain_step(diary, step, model, optimizer, squares(model))
    return [model]


@kind
def double_precision(diary: Diary) -> Iterable[nn.Module]:
    model = net().double()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        loss = (model(torch.randn(6, 4, dtype=torch.float64)) - 1).pow(2).mean()
        plain_step(diary, step, model, optimizer, loss)
    return [model]


@kind
def half_precision(diary: Diary) -> Iterable[nn.Module]:
    model = net().bfloat16()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        loss = (model(torch.randn(6, 4, dtype=torch.bfloat16)) - 1).pow(2).mean()
        plain_step(diary, step, model, optimizer, loss)
    return [model]


@kind
def channels_last(diary: Diary) -> Iterable[nn.Module]:
    """Convolutions in channels-last format, batch norm, in-place ReLU."""
    body = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(inplace=True), nn.Conv2d(4, 2, 3))
    model = nn.Sequential(body, nn.Flatten()).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(STEPS):
        images = torch.randn(2, 3, 6, 6).to(memory_format=torch.channels_last)
        plain_step(diary, step, model, optimizer, (model(images) - 1).pow(2).mean())
    return [model]


@kind
def thawing(diary: Diary) -> Iterable[nn.Module]:
    """A frozen layer is unfrozen halfway and added to the optimizer; parameters get new memory and gradients."""
    model = net()
    model[0].requires_grad_(False)
    optimizer = torch.optim.SGD(model[2].parameters(), lr=0.1)
    for step in range(STEPS):
        if step == STEPS // 2:
            model[0].requires_grad_(True)
            optimizer.add_param_group({"params": list(model[0].parameters())})
            model[2].weight.data = model[2].weight.data.clone()
        loss = squares(model)
        model.zero_grad(set_to_none=step % 2 == 0)
        loss.backward()
        diary.loss(step, loss)
        model[2].weight.grad = model[2].weight.grad * 2
        diary.update(step, model)
        optimizer.step()
    return [model]


@kind
def without_modules(diary: Diary) -> Iterable[nn.Module]:
    """Parameters outside of modules are named after the optimizer."""
    parameters = [torch.randn(4, 3, requires_grad=True), torch.zeros(3, requires_grad=True)]
    optimizer = torch.optim.RMSprop(parameters, lr=0.01)
    for step in range(STEPS):
        loss = (torch.randn(6, 4) @ parameters[0] + parameters[1] - 1).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        diary.loss(step, loss)
        for index, parameter in enumerate(parameters):
            diary.parameter(step, f"RMSprop_parameter_{index}", parameter)
        optimizer.step()
    return [nn.ParameterList(nn.Parameter(tensor) for tensor in parameters)]


@kind
def reshaped_names(diary: Diary) -> Iterable[nn.Module]:
    """Parametrized weights, a lazy layer, and an unpickled module."""
    model = nn.Sequential(nn.LazyLinear(5), nn.Tanh(), nn.utils.parametrizations.weight_norm(nn.Linear(5, 3)))
    model(torch.randn(1, 4))
    model.append(pickle.loads(pickle.dumps(nn.Linear(3, 3))))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(STEPS):
        plain_step(diary, step, model, optimizer, squares(model))
    return [model]


@kind
def split(diary: Diary) -> Iterable[nn.Module]:
    """Two optimizers, a frozen layer between their parameters; the second's updates count for the next step."""
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4).requires_grad_(False), nn.Linear(4, 3))
    optimizers = [torch.optim.SGD(model[index].parameters(), lr=0.1) for index in (0, 2)]
    for step in range(STEPS):
        model.zero_grad()
        loss = squares(model)
        loss.backward()
        diary.loss(step, loss)
        for late, layer in enumerate((0, 2)):
            if step + late < STEPS:
                for name, parameter in model[layer].named_parameters():
                    diary.parameter(step + late, f"{layer}.{name}", parameter)
                if not late:
                    for name, parameter in model[1].named_parameters():
                        diary.parameter(step, f"1.{name}", parameter)
            optimizers[late].step()
    return [model]


@kind
def fast_path(diary: Diary) -> Iterable[nn.Module]:
    """Evaluations use PyTorch's fast path of a transformer layer and are bit-identical."""
    layer = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.1, batch_first=True)
    model = nn.Sequential(nn.TransformerEncoder(layer, 1, enable_nested_tensor=False), nn.Flatten(), nn.Linear(8, 3))
    optimizer = torch.optim.AdamW(model.parameters())
    outputs = []
    for step in range(STEPS):
        model.train()
        plain_step(diary, 2 * step, model, optimizer, (model(torch.randn(6, 2, 4)) - 1).pow(2).mean())
        model.eval()
        with torch.no_grad():
            outputs.append(model(torch.randn(6, 2, 4)))
    diary.facts["evaluations"] = digest_of(outputs)
    return [model]


class Counting(TorchFunctionMode):
    """A mode of the script."""

    calls = 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


class InModes(nn.Sequential):
    """Enters modes in one forward pass and exits them in another, in a different order."""

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__(*modules)
        self.counting, self.devices, self.steps = Counting(), [], []

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        at = len(self.steps)
        self.steps.append(at)
        if at % 4 == 0:
            self.counting.__enter__()
        if at % 4 == 1:
            assert torch.empty(0).device.type == "cpu"
            with torch.device("meta"):
                self.devices.append(str(torch.empty(0).device))
        if at % 4 == 2:
            self.counting.__exit__(None, None, None)
        self.devices.append(str(torch.empty(0).device))
        return super().forward(inputs)


@kind
def modes(diary: Diary) -> Iterable[nn.Module]:
    """Modes of the script are unchanged, even if they are entered and exited in a forward pass."""
    model = InModes(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        plain_step(diary, step, model, optimizer, squares(model))
    diary.facts["devices"] = model.devices
    diary.facts["was_called"] = model.counting.calls > 0
    return [model]


class Copied(nn.Sequential):
    """Is scripted, copied and pickled in its own forward pass while everything is captured."""

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        file = io.BytesIO()
        torch.save(self[0], file)
        twins = [copy.deepcopy(self[0]), pickle.loads(pickle.dumps(self[0])), torch.jit.script(self[0])]
        expected = self[0](inputs)
        for twin in twins:
            assert torch.equal(twin(inputs), expected)
        return super().forward(inputs)


@kind
def scripted(diary: Diary) -> Iterable[nn.Module]:
    model = Copied(net(), nn.Linear(3, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        plain_step(diary, step, model, optimizer, squares(model))
    return [model]


class Transformed(nn.Sequential):
    """Is traced, exported, counted, faked and vmapped in its own forward pass."""

    def __init__(self, *modules: nn.Module) -> None:
        super().__init__(*modules)
        self.seen: list[object] = []

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        inner, plain = self[0], inputs.detach()
        traced = torch.jit.trace(inner, plain)
        self.seen.append(len(list(traced.inlined_graph.nodes())))
        self.seen.append([str(node.target) for node in torch.export.export(inner, (plain,)).graph.nodes])
        with FlopCounterMode(display=False) as counter:
            inner(plain)
        self.seen.append(counter.get_total_flops())
        with FakeTensorMode(allow_non_fake_inputs=True):
            self.seen.append(list(inner(plain).shape))
        assert torch.equal(torch.func.vmap(inner)(plain[:, None])[:, 0], inner(plain))
        torch.func.grad(lambda given: inner(given).sum())(plain)
        return super().forward(inputs)


@kind
def transformed(diary: Diary) -> Iterable[nn.Module]:
    model = Transformed(net(), nn.Linear(3, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(STEPS):
        plain_step(diary, step, model, optimizer, squares(model))
    diary.facts["seen"] = model.seen
    return [model]


class Seen(TorchDispatchMode):
    """Counts all operations, whoever calls them."""

    calls = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.calls += 1
        return func(*args, **(kwargs or {}))


@kind
def counted(diary: Diary) -> Iterable[nn.Module]:
    """A whole training under a mode that counts operations: those of Leadline are not counted."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with Seen() as seen:
        for _ in range(STEPS):
            loss = squares(model)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    diary.facts["calls"] = seen.calls
    return [model]


@kind
def averaged(diary: Diary) -> Iterable[nn.Module]:
    """Averaging with PyTorch's wrapper, which copies the model."""
    model = net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    average = torch.optim.swa_utils.AveragedModel(model)
    for step in range(STEPS):
        plain_step(diary, step, model, optimizer, squares(model))
        average.update_parameters(model)
    return [model, average]
