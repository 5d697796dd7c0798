"""Recording of every operator of a profile window with MXNet's profiler."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import tempfile
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import mxnet as mx
from mxnet import profiler

from leadline.frameworks.patches import MakeReplacement, Patches
from leadline.frameworks.trace_step_times import TraceStepTimes
from leadline.instrumentation.guard import Guard
from leadline.instrumentation.recording import Finish, ProfileUnavailableError
from leadline.records.json_object import JsonObject
from leadline.store import layout

_OPERATORS: Final = {
    "profile_all": False,
    "profile_symbolic": True,
    "profile_imperative": True,
    "profile_memory": False,
    "profile_api": False,
    "aggregate_stats": False,
    "continuous_dump": False,
}
_AS_IMPORTED: Final = {"filename": "profile.json", **_OPERATORS, "profile_imperative": False}
"""The settings of the profiler before the script changes them."""
_BUSY: Final = "the script is profiling itself with mx.profiler"
_WAITS: Final = "the training waits for all operators at the end of each phase"
_BULK: Final = "MXNET_EXEC_BULK_EXEC_TRAIN"
_AUTOSTART: Final = "MXNET_PROFILER_AUTOSTART"
_NAME: Final = "operators.json"
_LIST, _END = '"traceEvents": [', ',\n    "displayTimeUnit"'
_BEGINNING: Final = f"{{\n    {_LIST}\n"
_OVERHEAD: Final = frozenset({"DeleteVariable", "SetValueOp", "WaitForVar"})
"""What the engine does beside operators."""


class ScriptProfiling:
    """The use of the profiler by the script, and by recordings of ours: a process has one.

    Attributes:
        is_used: Whether the script has set up the profiler, whose settings cannot be read.
        on_use: Called when it does.
    """

    def __init__(self) -> None:
        self.is_used = os.environ.get(_AUTOSTART, "0") not in ("", "0")
        self.on_use: Callable[[], None] = lambda: None
        self._patches = Patches()
        self._set_config, self._set_state, self._dump = profiler.set_config, profiler.set_state, profiler.dump
        self._file = str(_AS_IMPORTED["filename"])
        self._has_recorded = False

    def install(self, guard: Guard) -> None:
        """Begin to watch."""

        def before(notice: Callable[..., None]) -> MakeReplacement:
            def make(original: Callable[..., Any]) -> Callable[..., Any]:
                def call(*args: Any, **kwargs: Any) -> Any:
                    guard.run(notice, **kwargs)
                    return original(*args, **kwargs)

                return call

            return make

        def make_dump(original: Callable[..., Any]) -> Callable[..., Any]:
            def dump(*args: Any, **kwargs: Any) -> Any:
                result = original(*args, **kwargs)
                guard.run(self._complete)
                return result

            return dump

        self._patches.replace(profiler, "set_config", before(self._notice))
        self._patches.replace(profiler, "set_state", before(self._notice))
        self._patches.replace(profiler, "dump", make_dump)

    def uninstall(self) -> None:
        """Stop watching."""
        self._patches.restore()

    def start(self, file: str) -> None:
        """Start a recording of ours."""
        self._set_config(filename=file, **_OPERATORS)
        self._set_state("run")

    def stop(self) -> None:
        """Stop it, write it, and put the settings back."""
        self._set_state("stop")
        self._dump(finished=False)
        self._set_config(**_AS_IMPORTED)
        self._has_recorded = True

    def _notice(self, **settings: Any) -> None:
        self.on_use()
        self.is_used = True
        self._file = str(settings.get("filename", self._file))

    def _complete(self) -> None:
        """Complete the script's file: MXNet has written the beginning of all its files into the one of ours."""
        if not self._has_recorded or not os.path.exists(self._file):
            return
        with open(self._file) as file:
            text = file.read()
        events = _events_in(text)
        if events.startswith(","):
            with open(self._file, "w") as file:
                file.write(_BEGINNING + events[1:])


class MXNetRecording:
    """See ``leadline.instrumentation.recording.Recording``.

    The training waits for MXNet's engine at the boundaries of the window's steps and phases: an operator belongs to the
    phase in which it runs.
    """

    def __init__(self, script: ScriptProfiling) -> None:
        self.notes: list[str] = [_WAITS]
        if os.environ.get(_BULK, "1") != "0":
            self.notes.append(f"operators that MXNet runs as one are ImperativeBulk; {_BULK}=0 separates them")
        self._script = script
        self._folder, self._is_running = "", False
        self._steps = TraceStepTimes()
        self._phases: list[tuple[int, str]] = []
        """When each phase began, in microseconds."""

    def begin(self, step: int) -> None:
        if self._script.is_used:
            raise ProfileUnavailableError(_BUSY)
        mx.nd.waitall()
        self._folder = tempfile.mkdtemp(prefix="leadline-profile-")
        self._script.start(os.path.join(self._folder, _NAME))
        self._script.on_use = self._yield_to_script
        self._is_running = True
        self._begin_step(step)

    def enter(self, step: int, ended: str) -> None:
        self._end_step(ended)
        self._begin_step(step)

    def mark(self, phase: str) -> None:
        mx.nd.waitall()
        self._phases.append((self._steps.mark(phase) // 1000, phase))

    def end(self, step: int, ended: str) -> Finish:
        self._end_step(ended)
        self._stop()
        written, steps, phases = self._folder, self._steps, self._phases
        return lambda folder: _write(written, steps, phases, folder)

    def _yield_to_script(self) -> None:
        self._stop()
        self.notes.append(f"recorded in part: {_BUSY}")

    def _stop(self) -> None:
        if self._is_running:
            self._is_running = False
            self._script.on_use = lambda: None
            self._script.stop()

    def _begin_step(self, step: int) -> None:
        self._phases.append((self._steps.begin(step) // 1000, "forward"))

    def _end_step(self, mode: str) -> None:
        mx.nd.waitall()
        self._steps.end(mode)


def _write(written: str, steps: TraceStepTimes, phases: Sequence[tuple[int, str]], folder: str) -> Sequence[str]:
    """Write the operators as a trace of torch.profiler has them, and next to it the times of the steps.

    Raises:
        OSError: One of the files could not be written.
        ValueError: What MXNet wrote is not a list of events.
    """
    try:
        with open(os.path.join(written, _NAME)) as file:
            events = list(read_operators(file.read()))
    finally:
        shutil.rmtree(written)
    begins = [begin for begin, _ in phases]
    for event in events:
        at = bisect_right(begins, event["ts"]) - 1
        event["args"] = {layout.TRACE_PHASE: _phase(str(event["name"]), phases[at][1] if at >= 0 else "other")}
    path = os.path.join(folder, layout.TRACE)
    with gzip.open(path, "wt") as file:
        json.dump({"baseTimeNanoseconds": 0, "traceEvents": events}, file)
    os.chmod(path, 0o600)
    steps.write(folder)
    return (layout.TRACE, layout.TRACE_STEPS)


def read_operators(text: str) -> Iterator[JsonObject]:
    """Yield the operators that the profiler wrote.

    Args:
        text: The whole file. It may be no JSON: after the first dump of a process the beginning is missing, and the
            end without ``finished``.
    """
    events = _events_in(text).removeprefix(",").rstrip()
    if events.endswith("}") and _END in events:
        events = events.rpartition(_END)[0].rstrip().removesuffix("]")
    open_events: dict[Any, list[Mapping[str, Any]]] = {}
    threads: dict[Any, int] = {}
    for event in json.loads(f"[{events}]"):
        if event.get("cat") != "operator" or event["name"] in _OVERHEAD or event["ph"] not in "BE":
            continue
        if event["ph"] == "B":
            open_events.setdefault(event["tid"], []).append(event)
        elif open_events.get(event["tid"]):
            begun = open_events[event["tid"]].pop()
            thread = threads.setdefault(event["tid"], len(threads) + 1)
            yield {
                "ph": "X",
                "cat": "cpu_op",
                "name": begun["name"],
                "ts": begun["ts"],
                "dur": event["ts"] - begun["ts"],
                "tid": thread,
            }


def _events_in(text: str) -> str:
    """Return a file of the profiler from its first event on, after a comma if the beginning is missing."""
    _, _, events = text.partition(_LIST)
    return (events or text).lstrip()


def _phase(operator: str, phase: str) -> str:
    """Return the phase of an operator: as its name says, else the one in which it runs."""
    if operator.startswith("_backward"):
        return "backward"
    return "optimizer" if operator.endswith("_update") else phase
