"""Eval steps: detected automatically, counted separately, and bit-identical."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from hooked_run import scalars, watch
from torch import nn
from torch.nn import functional
from torch.nn.modules import module as torch_module

import leadline
from leadline.frameworks.torch.naming import model_names

X, Y = torch.randn(12, 4, generator=torch.Generator().manual_seed(0)), torch.arange(12) % 3


def net() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Dropout(0.3), nn.Linear(8, 3))


class Loop:
    """Epochs of four train steps and three eval steps, recording every loss by mode."""

    def __init__(self, model: nn.Module, measure: Callable[..., torch.Tensor] = functional.cross_entropy) -> None:
        self.model, self.measure = model, measure
        self.optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        self.losses: dict[str, list[float]] = {"train": [], "eval": []}
        self.accuracies: list[float] = []
        self.outputs: list[torch.Tensor] = []

    def train(self, count: int = 4) -> None:
        self.model.train()
        for _ in range(count):
            self.optimizer.zero_grad()
            loss = self.measure(self.model(X), Y)
            self.losses["train"].append(loss.item())
            loss.backward()
            self.optimizer.step()

    def evaluate(self, *, reduction: str = "mean") -> None:
        self.model.eval()
        with torch.no_grad():
            for part in range(3):
                out = self.model(X[part::3])
                self.outputs.append(out)
                options = {} if reduction == "mean" else {"reduction": reduction}
                loss = self.measure(out, Y[part::3], **options)
                self.losses["eval"].append(loss.item() / (4 if reduction == "sum" else 1))
                self.accuracies.append(float((out.argmax(1) == Y[part::3]).float().mean()))

    def run(self) -> None:
        for _ in range(2):
            self.train()
            self.evaluate()


@pytest.mark.parametrize("measure", [functional.cross_entropy, nn.CrossEntropyLoss()])
def test_losses_and_accuracy_of_eval_steps(tmp_path: Path, measure: Callable[..., torch.Tensor]) -> None:
    loop = Loop(net(), measure)
    run = watch(tmp_path, loop.run, preset="standard")
    name = "cross_entropy_output_0" if measure is functional.cross_entropy else "CrossEntropyLoss_output_0"
    assert scalars(run, "losses") == {name: pytest.approx(dict(enumerate(loop.losses["train"])))}
    assert scalars(run, "losses", "eval") == {name: pytest.approx(dict(enumerate(loop.losses["eval"])))}
    assert scalars(run, "metrics", "eval") == {"accuracy": pytest.approx(dict(enumerate(loop.accuracies)))}
    assert run.steps(mode="eval") == list(range(6))
    assert run.steps(mode="train") == list(range(8))
    assert next(iter(run.worker_documents().values())).steps == {"train": 8, "eval": 6}


def test_a_summed_eval_loss_is_reported_as_a_mean(tmp_path: Path) -> None:
    loop = Loop(net())

    def train() -> None:
        loop.train()
        loop.evaluate(reduction="sum")

    losses = scalars(watch(tmp_path, train, preset="light"), "losses", "eval")
    assert losses == {"cross_entropy_output_0": pytest.approx(dict(enumerate(loop.losses["eval"])))}


def test_schedules_count_the_steps_of_their_mode(tmp_path: Path) -> None:
    loop = Loop(net())
    run = watch(tmp_path, loop.run, "outputs:every=2,modes=eval,raw=true", "outputs:every=3", preset="light")
    both = run.tensor("Sequential_output_0")
    assert both.steps(mode="train") == [0, 3, 6]
    assert both.steps(mode="eval") == [0, 2, 4]
    for step in (0, 2, 4):
        assert torch.equal(torch.tensor(both.value(step, mode="eval")), loop.outputs[step])


def test_evaluation_keeps_pytorchs_fast_paths_and_every_bit(tmp_path: Path) -> None:
    def outputs() -> list[torch.Tensor]:
        torch.manual_seed(0)
        layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        model = nn.Sequential(nn.Linear(4, 8), nn.Unflatten(1, (1, 8)), layer, nn.Flatten(), nn.Linear(8, 3))
        loop = Loop(model)
        loop.run()
        return loop.outputs

    without_hook = outputs()
    with_hook: list[torch.Tensor] = []
    watch(tmp_path, lambda: with_hook.extend(outputs()), "all:every=1,raw=true,modes=global", preset="standard")
    assert all(torch.equal(a, b) for a, b in zip(without_hook, with_hook, strict=True))


def test_no_hooks_remain_when_training_continues(tmp_path: Path) -> None:
    loop = Loop(net())
    has_hooks: list[bool] = []

    def train() -> None:
        loop.run()
        loop.train(1)
        has_hooks.append(bool(torch_module._global_forward_hooks))

    watch(tmp_path, train, preset="light")
    assert has_hooks == [False]


def test_evaluation_with_gradients_counts_unless_a_backward_pass_follows(tmp_path: Path) -> None:
    loop = Loop(net())

    def train() -> None:
        loop.train(3)
        loop.model.eval()
        for _ in range(3):
            functional.cross_entropy(loop.model(X), Y).item()
        loop.train(1)

    run = watch(tmp_path, train, preset="light")
    assert list(scalars(run, "losses", "eval")["cross_entropy_output_0"]) == [0, 1, 2]
    assert run.steps(mode="train") == [0, 1, 2, 3]


def test_an_evaluation_that_the_script_names_counts_although_a_backward_pass_follows(tmp_path: Path) -> None:
    loop = Loop(net())

    def train() -> None:
        for _ in range(2):
            loop.train(2)
            loop.model.eval()
            with leadline.mode("eval"):
                for _ in range(3):
                    loop.model(X).max(1).values.sum().backward()  # a saliency map
            loop.model.train()

    run = watch(tmp_path, train, "outputs:every=1,modes=eval", preset="light")
    assert run.steps(mode="eval") == list(range(6))
    assert run.steps(mode="train") == list(range(4))
    assert run.tensor("Sequential_output_0").steps(mode="eval") == list(range(6))


@pytest.mark.parametrize("has_gradients", [False, True])
def test_a_train_step_after_an_evaluation_is_captured_whole(tmp_path: Path, *, has_gradients: bool) -> None:
    loop = Loop(net())
    outputs: list[torch.Tensor] = []

    def keep(module: nn.Module, args: object, output: torch.Tensor) -> None:
        if module.training:
            outputs.append(output.detach().clone())

    def train() -> None:
        loop.model.register_forward_hook(keep)
        for _ in range(3):
            loop.train(2)
            loop.model.eval()
            with torch.set_grad_enabled(has_gradients):
                functional.cross_entropy(loop.model(X[:4]), Y[:4])
                functional.cross_entropy(loop.model(X[:4]), Y[:4])

    run = watch(tmp_path, train, "outputs:every=2,raw=true,modes=train", preset="light")
    captured = run.tensor("Sequential_output_0")
    for step in (0, 2, 4):
        assert torch.equal(torch.tensor(captured.value(step)), outputs[step])
    assert run.steps(mode="eval") == list(range(6))


def test_a_model_trained_in_eval_mode_has_only_train_steps(tmp_path: Path) -> None:
    loop = Loop(net())
    has_hooks: list[bool] = []

    def train() -> None:
        loop.train(3)
        loop.model.eval()
        for _ in range(8):
            loop.optimizer.zero_grad()
            functional.cross_entropy(loop.model(X), Y).backward()
            loop.optimizer.step()
        has_hooks.append(bool(torch_module._global_forward_hooks))

    run = watch(tmp_path, train, preset="light")
    assert run.steps(mode="train") == list(range(11))
    assert run.modes() == ["train"]
    assert has_hooks == [False]


def test_a_teacher_model_makes_no_eval_steps(tmp_path: Path) -> None:
    loop = Loop(net())
    teacher = copy.deepcopy(loop.model).eval()

    def train() -> None:
        for _ in range(4):
            with torch.no_grad():
                functional.cross_entropy(teacher(X), Y)
            loop.train(1)

    assert watch(tmp_path, train, preset="light").modes() == ["train"]


def test_the_script_can_set_the_mode(tmp_path: Path) -> None:
    loop = Loop(net())

    def train() -> None:
        loop.train(2)
        with leadline.mode("predict"):
            loop.model.eval()
            with torch.no_grad():
                for _ in range(2):
                    loop.model(X)
                    leadline.log(score=0.5)
        loop.train(1)

    run = watch(tmp_path, train, preset="standard")
    assert scalars(run, "scalars", "predict") == {"score": {0: 0.5, 1: 0.5}}
    assert next(iter(run.worker_documents().values())).steps == {"train": 3, "predict": 2}


def test_an_evaluation_process_is_captured_if_its_model_is_registered(tmp_path: Path) -> None:
    model = net()
    hook = leadline.torch.Hook(model, out=str(tmp_path), name="run")
    model.eval()
    with torch.no_grad():
        for _ in range(3):
            functional.cross_entropy(model(X), Y)
    hook.close()
    run = leadline.open_run(hook.run)
    assert list(scalars(run, "losses", "eval")["cross_entropy_output_0"]) == [0, 1, 2]


def test_a_nan_in_evaluation_is_captured(tmp_path: Path) -> None:
    loop = Loop(net())

    def train() -> None:
        loop.train(1)
        loop.model.eval()
        with torch.no_grad():
            functional.cross_entropy(loop.model(X * float("nan")), Y)

    run = watch(tmp_path, train, preset="light")
    value = scalars(run, "losses", "eval")["cross_entropy_output_0"][0]
    assert value != value


@pytest.mark.parametrize("has_gradients", [False, True])
@pytest.mark.parametrize("every", [1, 2, 3, 5])
def test_an_evaluation_takes_no_activation_from_a_train_step(
    tmp_path: Path, every: int, *, has_gradients: bool
) -> None:
    loop = Loop(net())
    names = {"0_output_0": 2, "1_output_0": 3, "2_output_0": 4, "4_output_0": 5, "0_input_0": 7}
    items = [f"layers:regex=^{name}$,every={interval},modes=train" for name, interval in names.items()]

    def train() -> None:
        for step in range(1, 22):
            loop.train(1)
            if step % every == 0:
                loop.model.eval()
                with torch.set_grad_enabled(has_gradients):
                    for part in range(2):
                        functional.cross_entropy(loop.model(X[part::3]), Y[part::3])

    run = watch(tmp_path, train, *items, preset="light")
    captured = {name: run.tensor(name).steps() for name in names}
    assert captured == {name: list(range(0, 21, interval)) for name, interval in names.items()}
    assert run.steps(mode="eval") == list(range(2 * (21 // every)))


class OwnLoss(nn.Module):
    """A model that computes its own loss in training, in the way of a library."""

    def __init__(self, kind: str) -> None:
        super().__init__()
        self.kind, self.body = kind, nn.Linear(4, 3)

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> object:
        out = self.body(x)
        loss = functional.cross_entropy(out, y)
        forms = {"tuple": (out, loss), "mapping": {"loss": loss, "logits": out, "norm": out.norm()}, "tensor": loss}
        return forms[self.kind]


@pytest.mark.parametrize(("kind", "place"), [("tuple", 1), ("mapping", "loss"), ("tensor", None)])
def test_a_loss_that_a_model_returns_is_its_eval_loss(tmp_path: Path, kind: str, place: object) -> None:
    model = OwnLoss(kind)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses: list[float] = []

    def loss_of(output: object) -> torch.Tensor:
        return output if place is None else output[place]  # type: ignore[index, return-value]

    def train() -> None:
        for _ in range(3):
            optimizer.zero_grad()
            (loss_of(model(X, Y)) / 2).backward()
            optimizer.step()
        model.eval()
        with torch.no_grad():
            for part in range(3):
                losses.append(loss_of(model(X[part::3], Y[part::3])).item())

    run = watch(tmp_path, train, preset="light")
    assert scalars(run, "losses", "eval") == {"cross_entropy_output_0": pytest.approx(dict(enumerate(losses)))}


@pytest.mark.parametrize("is_squeezed", [False, True])
def test_a_prediction_of_one_row_is_no_loss(tmp_path: Path, *, is_squeezed: bool) -> None:
    class Squeeze(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x.squeeze()

    model = nn.Sequential(nn.Linear(4, 1), *([Squeeze()] if is_squeezed else []))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def train() -> None:
        for _ in range(2):
            model.train()
            for _ in range(3):
                optimizer.zero_grad()
                (model(X).reshape(-1) - 1).square().mean().backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                for row in range(3):
                    model(X[row : row + 1])

    run = watch(tmp_path, train, preset="light")
    assert scalars(run, "losses", "eval") == {}
    assert next(iter(run.worker_documents().values())).steps == {"train": 6, "eval": 6}


@pytest.mark.parametrize("has_gradients", [False, True])
@pytest.mark.parametrize("restores_mode", [True, False])
def test_train_losses_of_parts_of_a_model_are_no_eval_losses(
    tmp_path: Path, *, restores_mode: bool, has_gradients: bool
) -> None:
    """Lightning calls parts of its module, and restores modes as attributes; other scripts do not restore them."""

    class Parts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.head = nn.Linear(4, 8), nn.Linear(8, 1)

    model = Parts()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-9)
    eval_losses: list[float] = []
    has_hooks: list[bool] = []

    def loss_of(target: float) -> torch.Tensor:
        return functional.mse_loss(model.head(model.body(X)), torch.full((12, 1), target))

    def train() -> None:
        for _ in range(4):
            model.eval()
            with torch.set_grad_enabled(has_gradients):
                eval_losses.extend(loss_of(0.0).item() for _ in range(2))
            for module in model.modules() if restores_mode else ():
                module.training = True
            for _ in range(5):
                optimizer.zero_grad()
                loss_of(100.0).backward()
                optimizer.step()
            has_hooks.append(bool(torch_module._global_forward_hooks))

    run = watch(tmp_path, train, "losses:every=1", preset="light")
    train_losses = scalars(run, "losses")
    assert {name: len(values) for name, values in train_losses.items()} == {"mse_loss_output_0": 20}
    assert min(train_losses["mse_loss_output_0"].values()) > 1000
    found = scalars(run, "losses", "eval")
    assert found == {"mse_loss_output_0": pytest.approx(dict(enumerate(eval_losses[2:])))}
    assert has_hooks[2] is False


class _WithLossInside(nn.Module):
    """A model with a part that computes the loss, which the model returns behind its predictions."""

    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.criterion = nn.Linear(8, 3), nn.CrossEntropyLoss()

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            out = self.linear(x)
            return out, self.criterion(out, labels)

    def __init__(self) -> None:
        super().__init__()
        self.body, self.head = nn.Sequential(nn.Linear(4, 8), nn.ReLU()), self.Head()

    def forward(self, x: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        out, loss = self.head(self.body(x), labels)
        return out, loss


def test_loss_and_accuracy_of_a_part_of_a_model_are_captured_without_tensors(tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = _WithLossInside()
    losses, accuracies = [], []

    def train() -> None:
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            model.train()
            model(X, Y)[1].backward()
            optimizer.step()
            model.eval()
            with torch.no_grad():
                out, loss = model(X, Y)
            losses.append(loss.item())
            accuracies.append(float((out.argmax(1) == Y).float().mean()))

    run = watch(tmp_path, train, "losses:every=1", "metrics:regex=accuracy,modes=eval,every=1")
    assert scalars(run, "losses", "eval") == {"head.criterion_output_0": pytest.approx(dict(enumerate(losses)))}
    assert scalars(run, "metrics", "eval") == {"accuracy": pytest.approx(dict(enumerate(accuracies)))}


def test_calls_of_parts_of_a_known_model_search_no_objects(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def search() -> None:
        raise AssertionError("all objects were searched")

    def evaluate_and_train() -> None:
        model = net()
        monkeypatch.setattr(model_names, "live_modules", search)
        with torch.no_grad():
            for layer in model:  # as agents do that call the heads of their policy
                layer(torch.ones(2, 4 if layer is model[0] else 8))
        Loop(model).train()

    run = watch(tmp_path, evaluate_and_train, preset="light")
    assert scalars(run, "losses")


def test_a_loss_module_that_a_model_makes_in_its_forward_pass_is_captured(tmp_path: Path) -> None:
    """As the models of Transformers do."""

    class Classifier(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = net()

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            out = self.body(x)
            return nn.CrossEntropyLoss()(out, labels), out

    loop = Loop(model := Classifier(), lambda pair, labels: pair[0])
    run = watch(tmp_path, lambda: _train_with_labels(model, loop), preset="standard")
    name = "CrossEntropyLoss_output_0"
    assert scalars(run, "losses") == {name: pytest.approx(dict(enumerate(loop.losses["train"])))}
    assert scalars(run, "losses", "eval") == {name: pytest.approx(dict(enumerate(loop.losses["eval"])))}
    assert scalars(run, "metrics", "eval") == {"accuracy": pytest.approx(dict(enumerate(loop.accuracies)))}
    assert "CrossEntropyLoss_input_1" in run.tensor_names(collection="labels")


def _train_with_labels(model: nn.Module, loop: Loop) -> None:
    for _ in range(3):
        model.train()
        loop.optimizer.zero_grad()
        loss, _ = model(X, Y)
        loss.backward()
        loop.optimizer.step()
        loop.losses["train"].append(loss.item())
        model.eval()
        with torch.no_grad():
            loss, out = model(X, Y)
        loop.losses["eval"].append(loss.item())
        loop.accuracies.append(float((out.argmax(1) == Y).float().mean()))


class Focal(nn.Module):
    """A loss with arithmetic of its own."""

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        p = logits.softmax(1).gather(1, labels[:, None]).squeeze(1)
        return (-((1 - p) ** 2) * p.log()).mean()


class Reported(nn.Module):
    """Called on the results of a model in evaluation, too, but never the start of a backward pass."""

    def forward(self, logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        return (logits.argmax(1) == labels).double().mean()


@pytest.mark.parametrize("kind", ["alone", "scaled", "sum", "evaluated with gradients"])
def test_a_criterion_of_the_script_is_a_loss_in_evaluation(tmp_path: Path, kind: str) -> None:
    model, criterion, metric = net(), Focal(), Reported()
    terms = {
        "scaled": lambda loss: loss / 4,
        "sum": lambda loss: 0.5 * loss + 1e-3 * sum(parameter.square().sum() for parameter in model.parameters()),
    }
    optimizer, seen = torch.optim.SGD(model.parameters(), lr=0.1), []

    def train() -> None:
        for _ in range(2):
            model.train()
            for _ in range(4):
                optimizer.zero_grad()
                terms.get(kind, lambda loss: loss)(criterion(model(X), Y)).backward()
                optimizer.step()
            model.eval()
            with torch.set_grad_enabled(kind == "evaluated with gradients"):
                for part in range(3):
                    logits = model(X[part::3])
                    metric(logits, Y[part::3])
                    seen.append(criterion(logits, Y[part::3]).item())

    run = watch(tmp_path, train, "losses:every=1,modes=train,eval", preset="light")
    assert len(run.steps("eval")) == len(seen) == 6
    assert scalars(run, "losses", "eval") == {"Focal_output_0": pytest.approx(dict(enumerate(seen)), rel=1e-6)}
    assert [*scalars(run, "losses")] == ["loss" if kind == "sum" else "Focal_output_0"]


@pytest.mark.parametrize("kind", ["other", "none", "derived"])
def test_what_a_model_returns_as_its_loss_is_none_of_a_training_by_something_else(tmp_path: Path, kind: str) -> None:
    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = net()

        def forward(self, inputs: torch.Tensor, labels: torch.Tensor | None = None) -> dict[str, torch.Tensor | None]:
            logits = self.body(inputs)
            loss = None if labels is None else (logits.logsumexp(1) - logits.gather(1, labels[:, None])[:, 0]).mean()
            return {"loss": loss, "logits": logits}

    model = Model()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    evaluated: list[float] = []

    def train() -> None:
        for _ in range(2):
            model.train()
            for _ in range(3):
                optimizer.zero_grad()
                output = model(X, None if kind == "none" else Y)  # as preferences or smoothed labels are trained
                loss = (output["loss"] - 0.1).abs() + 0.1 if kind == "derived" else output["logits"].square().mean()
                loss.backward()
                optimizer.step()
            model.eval()
            with torch.no_grad():
                evaluated.append(float(model(X, Y)["loss"]))

    run = watch(tmp_path, train, preset="light")
    assert list(scalars(run, "losses")) == ["loss"]
    found = scalars(run, "losses", "eval")
    assert found == ({"loss": pytest.approx(dict(enumerate(evaluated)))} if kind == "derived" else {})
