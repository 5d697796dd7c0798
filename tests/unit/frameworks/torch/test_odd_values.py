"""Whatever values a script gives at a step, the capture goes on, and the losses of further steps are recorded."""

from __future__ import annotations

from collections import UserDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import clip_grad_norm_, clip_grad_value_

import leadline
import leadline.torch
from leadline.reader.run import Run
from leadline.training.session.session import Session

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

ODD_STEP, STEPS = 3, 5
LIGHT = [f"{name}:every=1" for name in ("losses", "checks", "metrics", "hyperparameters", "gradient_norms")]
LIGHT += ["gradients:every=2,statistics=nonfinite_count", "outputs:every=2,statistics=mean"]
CAPTURE = [f"{name}:every=1" for name in ("all", "checks", "metrics", "hyperparameters", "gradient_norms")]
CAPTURE += [
    "all:every=1,statistics=histogram,histogram_exact,median,p95,checksum,prod,unit_std,nan_count,nonfinite_count,update_ratio,change_l2,std"
]
CAPTURE += ["predictions:every=1,statistics=confusion,class_counts", "all:every=1,raw=true"]


class Unreadable(torch.Tensor):
    """A tensor of a library that refuses most functions."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") in ("item", "__float__", "numel", "clone", "dim", "to", "double", "__eq__"):
            raise TypeError("refused")
        return super().__torch_function__(func, types, args, kwargs or {})


class Wrapped(torch.Tensor):
    """A plain subclass."""


class Broken(UserDict[str, Any]):
    """A container that cannot be iterated over."""

    def values(self) -> Any:
        raise RuntimeError("no values")


@dataclass
class Sample:
    inputs: Any
    extra: Any


class Net(nn.Module):
    """A model that takes, and returns, anything beside its inputs."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(4, 8), nn.Linear(8, 3)
        self.passes = nn.Identity()

    def forward(self, inputs: torch.Tensor, extra: Any = None) -> torch.Tensor:
        self.passes(extra)
        return self.last(F.relu(self.first(inputs)))


@dataclass
class Step:
    """One step of the training, which a case changes at one step."""

    model: Net
    optimizer: torch.optim.Optimizer
    inputs: torch.Tensor
    labels: torch.Tensor

    def loss(self, extra: Any = None) -> torch.Tensor:
        return F.cross_entropy(self.model(self.inputs, extra), self.labels)

    def mean(self, count: Any) -> torch.Tensor:
        return F.cross_entropy(self.model(self.inputs), self.labels, reduction="sum") / count

    def finish(self, loss: torch.Tensor, gradient: torch.Tensor | None = None) -> None:
        loss.backward(gradient)
        self.optimizer.step()


Case = Callable[[Step], None]
CASES: dict[str, Case] = {}


def case(name: str) -> Callable[[Case], Case]:
    def add(function: Case) -> Case:
        CASES[name] = function
        return function

    return add


SCALARS: dict[str, Callable[[], Any]] = {
    "0": lambda: torch.tensor(0),
    "0.0": lambda: torch.tensor(0.0),
    "nan": lambda: torch.tensor(float("nan")),
    "inf": lambda: torch.tensor(float("inf")),
    "-inf": lambda: torch.tensor(float("-inf")),
    "huge": lambda: torch.tensor(1e300, dtype=torch.float64),
    "tiny": lambda: torch.tensor(1e-310, dtype=torch.float64),
    "bool": lambda: torch.tensor(True),
    "false": lambda: torch.tensor(False),
    "int8": lambda: torch.tensor(3, dtype=torch.int8),
    "float16": lambda: torch.tensor(0.0, dtype=torch.float16),
    "bfloat16": lambda: torch.tensor(2.0, dtype=torch.bfloat16),
    "one element": lambda: torch.tensor([2.0]),
    "subclass": lambda: torch.tensor(0.0).as_subclass(Wrapped),
    "requires grad": lambda: torch.tensor(0.0, requires_grad=True),
    "python zero": lambda: torch.tensor(1.0) * 0,
}
for name, make in SCALARS.items():
    CASES[f"divided by {name}"] = lambda step, make=make: step.finish(step.mean(make()).sum())
    CASES[f"multiplied by {name}"] = lambda step, make=make: step.finish((step.loss() * make()).sum())
    CASES[f"returned {name}"] = lambda step, make=make: step.finish(step.loss(make()))

EXTRAS: dict[str, Callable[[], Any]] = {
    **SCALARS,
    "empty": lambda: torch.empty(0),
    "empty rows": lambda: torch.empty(0, 3),
    "all nan": lambda: torch.full((3, 4), float("nan")),
    "all inf": lambda: torch.full((3, 4), float("inf")),
    "mixed inf": lambda: torch.tensor([float("inf"), float("-inf"), float("nan"), 0.0]),
    "huge": lambda: torch.full((3, 4), 3e38),
    "complex": lambda: torch.randn(3, 4, dtype=torch.complex64),
    "complex32": lambda: torch.randn(3, 4).to(torch.complex32),
    "bool": lambda: torch.ones(3, dtype=torch.bool),
    "int64 extremes": lambda: torch.tensor([2**63 - 1, -(2**63)]),
    "uint8": lambda: torch.ones(3, dtype=torch.uint8),
    "uint16": lambda: torch.ones(3, dtype=torch.uint16),
    "float16": lambda: torch.full((3,), 65504.0, dtype=torch.float16),
    "bfloat16": lambda: torch.ones(3, dtype=torch.bfloat16),
    "float8": lambda: torch.ones(3).to(torch.float8_e4m3fn),
    "float8 e5m2": lambda: torch.ones(3).to(torch.float8_e5m2),
    "quantized": lambda: torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
    "sparse": lambda: torch.eye(3).to_sparse(),
    "csr": lambda: torch.eye(3).to_sparse_csr(),
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]),
    "jagged": lambda: torch.nested.nested_tensor([torch.ones(2, 1), torch.ones(3, 1)], layout=torch.jagged),
    "meta": lambda: torch.ones(3, device="meta"),
    "subclass": lambda: torch.ones(3).as_subclass(Wrapped),
    "unreadable": lambda: torch.ones(3).as_subclass(Unreadable),
    "unreadable number": lambda: torch.tensor(1.0).as_subclass(Unreadable),
    "expanded": lambda: torch.ones(1).expand(1 << 12),
    "conjugate": lambda: torch.randn(3, dtype=torch.complex64).conj(),
    "negative view": lambda: torch.randn(3, dtype=torch.complex64).conj().imag,
    "zero strides": lambda: torch.ones(()).expand(3, 0),
    "string": lambda: "text",
    "strings": lambda: ["text", None, 3],
    "broken container": lambda: Broken(a=1),
    "itself": lambda: _cycle(),
    "dataclass": lambda: Sample(torch.ones(2), Broken(a=1)),
    "range": lambda: range(10**9),
    "generator": lambda: (each for each in [torch.ones(2)]),
}


def _cycle() -> list[Any]:
    cycle: list[Any] = [torch.ones(2)]
    cycle.append(cycle)
    return cycle


for name, make in EXTRAS.items():
    CASES[f"given {name}"] = lambda step, make=make: step.finish(step.loss(make()))


@case("no valid label")
def _no_label(step: Step) -> None:
    labels = torch.full_like(step.labels, -100)
    sum_ = F.cross_entropy(step.model(step.inputs), labels, reduction="sum")
    step.finish(sum_ / (labels != -100).sum())


@case("the mean of no label")
def _mean_of_none(step: Step) -> None:
    step.finish(F.cross_entropy(step.model(step.inputs), torch.full_like(step.labels, -100)))


@case("no row")
def _no_row(step: Step) -> None:
    step.finish(F.cross_entropy(step.model(step.inputs[:0]), step.labels[:0]))


@case("input of NaN")
def _nan_input(step: Step) -> None:
    step.finish(F.cross_entropy(step.model(step.inputs / 0), step.labels))


@case("soft labels")
def _soft(step: Step) -> None:
    step.finish(F.cross_entropy(step.model(step.inputs), torch.full((len(step.labels), 3), float("nan"))))


@case("labels of another type")
def _types(step: Step) -> None:
    step.finish(F.mse_loss(step.model(step.inputs), torch.ones(8, 3, dtype=torch.bool).to(torch.float64)).float())


@case("labels of NaN for two classes")
def _binary(step: Step) -> None:
    outputs = step.model(step.inputs)[:, :1]
    step.finish(F.binary_cross_entropy_with_logits(outputs, torch.full_like(outputs, float("nan"))))


@case("an unreadable loss")
def _unreadable(step: Step) -> None:
    step.finish(step.loss().as_subclass(Unreadable))


@case("a loss of a subclass")
def _subclass(step: Step) -> None:
    step.finish(step.loss().as_subclass(Wrapped))


@case("a loss that is no number")
def _vector(step: Step) -> None:
    loss = F.cross_entropy(step.model(step.inputs), step.labels, reduction="none")
    step.finish(loss, torch.ones_like(loss))


@case("a complex loss")
def _complex(step: Step) -> None:
    loss = step.loss().to(torch.complex64) * torch.tensor(1j)
    step.finish(loss, torch.ones_like(loss))


@case("a complex factor")
def _complex_factor(step: Step) -> None:
    step.finish((step.loss() / torch.tensor(2j)).real)


@case("a loss of float16")
def _half(step: Step) -> None:
    step.finish((step.loss() * 1e9).half())


@case("a loss of a graph of our own")
def _custom(step: Step) -> None:
    class Scale(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: torch.Tensor) -> torch.Tensor:
            return value * 2

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:  # type: ignore[override]
            return gradient * 2

    step.finish(Scale.apply(step.loss()))


@case("several losses at once")
def _several(step: Step) -> None:
    torch.autograd.backward([step.loss(), step.loss() / torch.tensor(0)])
    step.optimizer.step()


@case("sparse gradients")
def _sparse_gradient(step: Step) -> None:
    step.loss().backward()
    step.model.last.weight.grad = step.model.last.weight.grad.to_sparse()  # type: ignore[union-attr]
    step.optimizer.step()


@case("gradients of NaN and infinity")
def _bad_gradients(step: Step) -> None:
    step.loss().backward()
    step.model.last.weight.grad.fill_(float("inf"))  # type: ignore[union-attr]
    step.model.first.weight.grad.fill_(float("nan"))  # type: ignore[union-attr]
    step.optimizer.step()


@case("no gradient")
def _no_gradient(step: Step) -> None:
    step.loss().backward()
    step.optimizer.zero_grad()
    step.optimizer.step()


@case("clipping at odd norms")
def _clipping(step: Step) -> None:
    step.loss().backward()
    for limit, kind in ((0.0, 2.0), (float("nan"), 2.0), (float("inf"), float("inf")), (torch.tensor(1.0), 0.0)):
        clip_grad_norm_(step.model.parameters(), limit, kind)  # type: ignore[arg-type]
    clip_grad_norm_([], 1.0)
    clip_grad_value_(step.model.parameters(), float("nan"))
    step.optimizer.step()


@case("a scaler that skips")
def _scaler(step: Step) -> None:
    scaler = torch.amp.GradScaler("cpu", init_scale=float("inf"))
    scaler.scale(step.loss()).backward()
    scaler.step(step.optimizer)
    scaler.update(torch.tensor(1.0))


@case("a model whose parameters change")
def _replaced(step: Step) -> None:
    step.model.last = nn.Linear(8, 3)
    step.optimizer.add_param_group({"params": list(step.model.last.parameters())})
    step.finish(step.loss())


@case("evaluation of NaN")
def _evaluation(step: Step) -> None:
    step.model.eval()
    with torch.no_grad():
        F.cross_entropy(step.model(step.inputs / 0, torch.ones(2).as_subclass(Unreadable)), step.labels)
        F.cross_entropy(step.model(step.inputs[:0]), step.labels[:0])
    step.model.train()
    step.finish(step.loss())


SETTINGS: dict[str, Any] = {
    "tensor": lambda: torch.tensor(0.1),
    "meta tensor": lambda: torch.tensor(0.1, device="meta"),
    "complex": lambda: 1j,
    "string": lambda: "cosine",
    "none": lambda: None,
    "huge integer": lambda: 10**400,
    "nan": lambda: float("nan"),
    "empty tensor": lambda: torch.empty(0),
    "unreadable": lambda: torch.tensor(1.0).as_subclass(Unreadable),
    "sparse": lambda: torch.ones(1).to_sparse(),
    "complex tensor": lambda: torch.tensor(1j),
    "nested tuple": lambda: (0.9, (1, 2), "x", torch.tensor(2.0)),
    "dict": lambda: {"a": 1},
    "function": lambda: min,
}
for name, make in SETTINGS.items():

    def set_group(step: Step, name: str = name, make: Callable[[], Any] = make) -> None:
        step.optimizer.param_groups[0][f"setting of {name}"] = make()
        step.optimizer.param_groups[0]["initial_lr"] = make()
        step.finish(step.loss())

    CASES[f"a setting that is {name}"] = set_group


USUAL = [
    *(f"divided by {name}" for name in ("0", "nan", "requires grad")),
    *(f"a setting that is {name}" for name in ("huge integer", "meta tensor")),
    *("no valid label", "no row", "an unreadable loss", "a complex factor", "clipping at odd norms"),
]
"""What an everyday test tries."""


def train(cases: Iterable[Case]) -> list[float]:
    """Train a model for each case; return the losses of the steps before and after the odd one."""
    losses = []
    for odd in cases:
        torch.manual_seed(0)
        model = Net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
        for number in range(STEPS):
            optimizer.zero_grad()
            step = Step(model, optimizer, torch.randn(8, 4), torch.randint(3, (8,)))
            if number == ODD_STEP:
                odd(step)
                continue
            loss = step.loss()
            losses.append(loss.item())
            step.finish(loss)
    return losses


def captured(folder: Path, cases: Callable[[Session], Iterable[Case]], capture: list[str]) -> tuple[Run, list[float]]:
    with leadline.torch.Hook(out=str(folder), name="run", preset=None, capture=capture) as hook:
        assert hook.session is not None
        losses = train(cases(hook.session))
    return leadline.open_run(hook.run), losses


def losses_of(run: Run, steps: Iterable[int]) -> list[float]:
    """Return the losses of some steps, whatever their names."""
    tensors = [run.tensor(name) for name in run.tensor_names(collection="losses")]
    places = {step: tensor for tensor in tensors for step in tensor.steps()}
    return [places[step].statistic("value", step) for step in steps]


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_the_capture_goes_on(name: str, tmp_path: Path) -> None:
    run, losses = captured(tmp_path, lambda session: [CASES[name]], CAPTURE)
    (worker,) = run.worker_documents().values()
    assert worker.off is None, worker.off
    assert worker.steps["train"] == STEPS
    recorded = losses_of(run, (step for step in range(STEPS) if step != ODD_STEP))
    assert recorded == pytest.approx(losses, nan_ok=True)
    assert losses == pytest.approx(train([CASES[name]]), nan_ok=True)


@pytest.mark.parametrize("chosen", [USUAL, pytest.param(list(CASES), marks=pytest.mark.slow)], ids=["usual", "all"])
def test_the_capture_goes_on_whatever_follows(chosen: list[str], tmp_path: Path) -> None:
    failed: list[str] = []

    def in_turn(session: Session) -> Iterator[Case]:
        for name in chosen:
            yield CASES[name]
            assert session.guard.failure is None, (name, session.guard.failure)
            failed.extend(f"{name}: {fact}: {failure}" for fact, failure in session.context.facts.failures.items())
            for fact in session.context.facts._facts.values():
                fact.failure = None  # so that each value meets all that reads values
            session.recorder._updates._together.failure = None

    run, losses = captured(tmp_path, in_turn, LIGHT if chosen is USUAL else CAPTURE)
    (worker,) = run.worker_documents().values()
    assert worker.off is None
    assert worker.steps["train"] == len(chosen) * STEPS
    assert {line.partition(":")[0] for line in failed} <= {"given broken container", "given dataclass"}
    recorded = losses_of(run, (step for step in range(len(chosen) * STEPS) if step % STEPS != ODD_STEP))
    assert recorded == pytest.approx(losses, nan_ok=True)
