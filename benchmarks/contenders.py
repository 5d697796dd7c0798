"""The contenders of ``capture.py``: Leadline and its peers, each with a count of what it stored on disk."""

from __future__ import annotations

import atexit
import json
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from every_rule import EVERY_RULE, OTHER_RUN
from workload import Workload, transformer

CORE = ("min", "max", "sum", "mean", "l1", "l2", "abs_mean", "abs_max")
BASIC = (*CORE, "std", "zero_ratio", "nan_count", "nonfinite_count")
"""The statistics of the preset standard; of weights also ``update_ratio``."""


@dataclass(frozen=True, slots=True)
class Stored:
    """Expected and actual number of values that a block stored."""

    expected: int
    found: int


class Contender(ABC):
    """One way to record a block of steps; ``open`` is not timed, the steps and ``close`` are."""

    def open(self, folder: Path, workload: Workload) -> Workload:
        """Begin to record; return the workload whose steps are recorded."""
        self.folder, self.workload, self.step = folder, workload, -1
        return workload

    def before_update(self) -> None:
        """Called in every step, between the backward pass and the optimizer step."""
        self.step += 1

    @abstractmethod
    def close(self) -> None:
        """Write everything that is still pending."""

    @abstractmethod
    def count(self, steps: int) -> Stored:
        """Open the files and count the stored values."""

    def tensors(self) -> dict[str, torch.Tensor]:
        """Return weights, biases and gradients by name."""
        parameters = dict(self.workload.model.named_parameters())
        gradients = {f"gradient/{name}": weight.grad for name, weight in parameters.items() if weight.grad is not None}
        return {name: tensor.detach() for name, tensor in {**parameters, **gradients}.items()}

    def names(self) -> tuple[str, ...]:
        """Return the names of all weights, biases and gradients."""
        names = [name for name, _ in self.workload.model.named_parameters()]
        return (*names, *(f"gradient/{name}" for name in names))


class Bare(Contender):
    """The bare training."""

    def close(self) -> None: ...

    def count(self, steps: int) -> Stored:
        return Stored(0, 0)


@dataclass
class SafetensorsInTheLoop(Contender):
    """A hand-written loop: ``save_file`` of everything, one file per step."""

    every: int = 1

    def before_update(self) -> None:
        super().before_update()
        if self.step % self.every == 0:
            from safetensors.torch import save_file

            save_file(self.tensors(), self.folder / f"{self.step:06d}.safetensors")

    def close(self) -> None: ...

    def count(self, steps: int) -> Stored:
        names = set(self.names())
        found = sum(len(names & keys) for keys in map(_safetensors_keys, self.folder.glob("*.safetensors")))
        return Stored(len(names) * captures(steps, self.every), found)


@dataclass
class TensorBoardHistograms(Contender):
    """``SummaryWriter.add_histogram`` of everything."""

    every: int = 1

    def open(self, folder: Path, workload: Workload) -> Workload:
        from torch.utils.tensorboard import SummaryWriter

        self.writer = SummaryWriter(str(folder))
        return super().open(folder, workload)

    def before_update(self) -> None:
        super().before_update()
        if self.step % self.every == 0:
            for name, tensor in self.tensors().items():
                self.writer.add_histogram(name, tensor, self.step)

    def close(self) -> None:
        self.writer.close()

    def count(self, steps: int) -> Stored:
        from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

        names = set(self.names())
        found = set()
        for file in self.folder.glob("events.out.tfevents.*"):
            for event in EventFileLoader(str(file)).Load():
                found |= {(value.tag, event.step) for value in event.summary.value if value.tag in names}
        return Stored(len(names) * captures(steps, self.every), len(found))


@dataclass
class Smdebug(Contender):
    """smdebug 1.0.34: weights, biases and gradients raw."""

    every: int = 1

    def open(self, folder: Path, workload: Workload) -> Workload:
        from smdebug.pytorch import Hook, SaveConfig

        # its hooks cannot be removed from a model, so every block trains a new one
        training = transformer()
        training.step()
        self.hook = Hook(
            out_dir=str(folder / "run"),
            save_config=SaveConfig(save_interval=self.every),
            include_collections=["weights", "biases", "gradients"],
        )
        self.hook.register_module(training.model)
        return super().open(folder, training)

    def close(self) -> None:
        self.hook.close()
        # otherwise it would close again at exit, and recreate the folder
        atexit.unregister(self.hook._cleanup)

    def count(self, steps: int) -> Stored:
        from smdebug.trials import create_trial

        trial = create_trial(str(self.folder / "run"))
        root = type(self.workload.model).__name__
        expected = {name.replace("gradient/", f"gradient/{root}_") for name in self.names()}
        expected = {name if name.startswith("gradient/") else f"{root}_{name}" for name in expected}
        found = sum(len(trial.tensor(name).steps()) for name in trial.tensor_names() if name in expected)
        return Stored(len(expected) * captures(steps, self.every), found)


class NaiveStatistics(Contender):
    """The core statistics with one torch call per statistic, one JSON line per step."""

    def before_update(self) -> None:
        super().before_update()
        row = {}
        for name, t in self.tensors().items():
            row[name] = torch.stack(
                [
                    t.min(),
                    t.max(),
                    t.sum(),
                    t.mean(),
                    t.norm(p=1),
                    t.norm(p=2),
                    t.abs().mean(),
                    t.abs().max(),
                ]
            ).tolist()
        with (self.folder / "statistics.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")

    def close(self) -> None: ...

    def count(self, steps: int) -> Stored:
        with (self.folder / "statistics.jsonl").open() as file:
            found = sum(len(values) for line in file for values in json.loads(line).values())
        return Stored(len(self.names()) * len(CORE) * steps, found)


@dataclass
class Leadline(Contender):
    """``leadline.torch.Hook`` in this process, without agent and judge."""

    capture: Sequence[str] = ()
    preset: str | None = None
    every: int = 1
    is_raw: bool = False
    statistics: tuple[str, ...] = ()
    """Captured for weights, biases and gradients."""
    weight_statistics: tuple[str, ...] = ()
    """Captured for weights and biases only."""
    has_loss: bool = False
    """Whether the loss is captured at every step."""
    names_model: bool = False
    """Whether the model is passed to the hook, because no optimizer will step."""

    def open(self, folder: Path, workload: Workload) -> Workload:
        try:
            from leadline.torch import Hook
        except ImportError as error:
            raise NotAvailableError(f"leadline.torch.Hook cannot be imported: {error}") from error
        model = workload.model if self.names_model else None
        self.hook = Hook(model, out=str(folder), name="run", preset=self.preset, capture=list(self.capture))
        return super().open(folder, workload)

    def close(self) -> None:
        self.overhead_seconds = self.hook.own_seconds
        self.hook.close()

    def count(self, steps: int) -> Stored:
        run = self.folder / "run"
        times = captures(steps, self.every)
        names = set(self.names())
        weights = {name for name in names if not name.startswith("gradient/")}
        expected = found = 0
        if self.is_raw:
            expected += len(names) * times
            found += len({key for key in _raw_keys(run) if key.split("/", 2)[2] in names})
        pairs = {(name, statistic) for name in names for statistic in self.statistics}
        pairs |= {(name, statistic) for name in weights for statistic in self.weight_statistics}
        expected += len(pairs) * times
        stored = _series_values(run)
        found += sum((name, statistic) in pairs for _, name, statistic, _ in stored)
        if self.has_loss:
            expected += steps
            found += len({step for step, _, statistic, is_loss in stored if is_loss and statistic == "value"})
        return Stored(expected, found)


@dataclass
class LeadlineRun(Leadline):
    """What ``leadline run`` captures with preset standard and every built-in rule, without agent and judge."""

    steps_before: int = 0
    """Steps trained before a block begins."""

    def open(self, folder: Path, workload: Workload) -> Workload:
        from leadline.config.run_config import RunConfig
        from leadline.launch.prepare import prepare
        from leadline.training.session import api

        command = ["train.py"]
        prepare(RunConfig(name=OTHER_RUN, out=str(folder), preset="light", default_rules=False), command)
        run = prepare(RunConfig.from_options(name="run", out=str(folder), preset="standard", rules=EVERY_RULE), command)
        self.session = api.start(run)
        if self.session is None:
            raise NotAvailableError("LEADLINE_DISABLED is set")
        for _ in range(self.steps_before):
            workload.step()
        self._overhead_ns_before = self.session.recorder.cost.own_ns
        return Contender.open(self, folder, workload)

    def close(self) -> None:
        from leadline.training.session import api

        api.stop_current()
        self.overhead_seconds = (self.session.recorder.cost.own_ns - self._overhead_ns_before) / 1e9
        recorder = self.session.recorder
        self.sampled = recorder.budget.sampled(recorder.clock.finished) if recorder.budget is not None else ()

    def count(self, steps: int) -> Stored:
        return super().count(self.steps_before + steps)


class NotAvailableError(Exception):
    """A contender is not installed; the message says what is missing."""


def leadline_raw(every: int) -> Leadline:
    """Return a contender that stores all weights, biases and gradients raw."""
    kinds = ("weights", "biases", "gradients")
    return Leadline([f"{kind}:raw=true,every={every}" for kind in kinds], every=every, is_raw=True)


def leadline_statistics(statistics: Sequence[str], weight_statistics: Sequence[str] = ()) -> Leadline:
    """Return a contender that captures statistics at every step, some of weights and biases only."""
    of_weights = ",".join([*statistics, *weight_statistics])
    return Leadline(
        [
            f"weights:statistics={of_weights},every=1",
            f"biases:statistics={of_weights},every=1",
            f"gradients:statistics={','.join(statistics)},every=1",
        ],
        statistics=tuple(statistics),
        weight_statistics=tuple(weight_statistics),
    )


def leadline_preset() -> Leadline:
    """Return the preset standard in 50 steps: losses at every step; statistics, hyperparameters and accuracy at one.

    Its activations, captured every 500 steps, have a separate row: every block begins at step 0, where they would be.
    """
    capture = [
        "losses:every=1",
        "metrics:every=50",
        *(
            f"{collection}:every=50"
            for collection in ("gradients", "weights", "biases", "hyperparameters", "gradient_norms")
        ),
    ]
    return Leadline(capture, every=50, statistics=BASIC, weight_statistics=("update_ratio",), has_loss=True)


def leadline_rules() -> Leadline:
    """Return preset standard with every rule, in 50 steps of a running training without captures every 500 steps.

    What is set up once in a run was set up in the steps before.
    """
    return _every_rule(steps_before=51)


def leadline_rules_first() -> Leadline:
    """Return the same in the first steps, which capture the most: many rules check the start of a training."""
    return _every_rule(steps_before=0)


def _every_rule(*, steps_before: int) -> Leadline:
    of_weights = ("update_ratio", "checksum")
    return LeadlineRun(
        every=50, statistics=BASIC, weight_statistics=of_weights, has_loss=True, steps_before=steps_before
    )


def leadline_activations() -> Leadline:
    """Return a contender that captures inputs and outputs of all modules at the first step of a block."""
    return Leadline(["layers:every=1000000"])


def leadline_evaluation() -> Leadline:
    """Return a contender that captures loss and accuracy at every eval step, as all presets do."""
    return Leadline(preset="light", names_model=True)


def leadline_idle() -> Leadline:
    """Return a contender with a capture plan that is not scheduled at any step of the block."""
    return Leadline(["weights:steps=1000000000"])


def captures(steps: int, every: int) -> int:
    """Return how many of the first ``steps`` steps are captured."""
    return -(-steps // every)


def _safetensors_keys(file: Path) -> set[str]:
    from safetensors import safe_open

    with safe_open(file, framework="np") as opened:
        return set(opened.keys())


def _raw_keys(run: Path) -> set[str]:
    keys: set[str] = set()
    for file in run.glob("tensors/*/*.safetensors"):
        keys |= _safetensors_keys(file)
    return keys


def _series_values(run: Path) -> set[tuple[int, str, str, bool]]:
    """Return (step, tensor, statistic, is_loss) of every stored number; read by pyarrow alone."""
    stored = set()
    for file in run.glob("series/*/*.arrow*"):
        for columns, row in _series_rows(file):
            for (name, statistic, is_loss), value in zip(columns, row["values"], strict=True):
                if value is not None and not math.isnan(value):
                    stored.add((row["step"], name, statistic, is_loss))
    return stored


def _series_rows(file: Path) -> list[tuple[list[tuple[str, str, bool]], dict[str, Any]]]:
    import pyarrow as pa

    with pa.input_stream(file) as stream, pa.ipc.open_stream(stream) as reader:
        metadata = reader.schema.metadata
        tensors = json.loads(metadata[b"leadline.tensors"])
        columns = [
            (tensors[index][0], statistic, "losses" in tensors[index][1])
            for index, statistic in json.loads(metadata[b"leadline.columns"])
        ]
        return [(columns, row) for batch in reader for row in batch.to_pylist()]
