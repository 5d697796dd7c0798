"""Observation of blocks: inputs and outputs at captured steps, the outputs of losses, and eval steps."""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from mxnet import autograd
from mxnet.gluon import Block
from mxnet.gluon.loss import Loss
from mxnet.gluon.nn import Activation

from leadline.frameworks.adapter import StepCallbacks
from leadline.frameworks.array_capture import CapturedArrays
from leadline.frameworks.mxnet.arrays import arrays_in, mean_of, read
from leadline.frameworks.mxnet.inner_blocks import InnerBlocks, asks_by_name
from leadline.frameworks.mxnet.loss_inputs import GluonLossFacts
from leadline.frameworks.mxnet.steps import Losses, LossOutput
from leadline.frameworks.patches import Patches
from leadline.instrumentation.guard import Guard
from leadline.instrumentation.live_objects import live_instances
from leadline.records.plan import CaptureItem

_MAX_CALLS: Final = 1024
"""Arrays of one block in one step; a block in a loop has further ones for each call."""
_LOSS_ROLES: Final = ("predictions", "labels")


class _Local(threading.local):
    """The calls under way in a thread."""

    depth = 0
    forward: BlockCapture | None = None


class BlockCapture:
    """What is captured of blocks in one train or eval step.

    Each outermost block is captured in its first call of a step; a block that is called again within that has further
    numbers.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        self._note = note
        self.captured = CapturedArrays(note)
        self.called: set[int] = set()
        """The ids of outermost blocks that were called in the step; they live as long as their model."""
        self.has_items = self.names_layers = False
        self._numbers: dict[str, int] = {}

    def begin(self, items: Sequence[CaptureItem], mode: str) -> None:
        """Begin a step."""
        self.captured.begin(items, mode)
        self.extend(items)
        self.called.clear()
        self._numbers.clear()

    def extend(self, items: Sequence[CaptureItem]) -> None:
        """Capture other items from now on, beside what was captured."""
        self.captured.extend(items)
        self.has_items, self.names_layers = bool(items), asks_by_name(items)

    def keep(self, stem: str, collections: Sequence[tuple[str, ...]], values: Any) -> None:
        """Capture the arrays among some inputs or outputs; of further ones the collections are those of the last."""
        for at, array in enumerate(arrays_in(values)):
            number = self._numbers.get(stem, -1) + 1
            if number >= _MAX_CALLS:
                self._note(f"arrays beyond {_MAX_CALLS:,} of one block are not captured in one step")
                return
            self._numbers[stem] = number
            self.keep_array(f"{stem}_{number}", collections[min(at, len(collections) - 1)], array)

    def keep_array(self, name: str, collections: tuple[str, ...], array: Any) -> None:
        """Capture an array if an item selects it."""
        captured, begun = self.captured, time.perf_counter_ns()
        statistics, is_raw = captured.requested(name, collections)
        if statistics or is_raw:
            captured.keep(name, collections, read(array))
        captured.own_ns += time.perf_counter_ns() - begun
        captured.begun_ns = captured.begun_ns or begun


class _Call(NamedTuple):
    """An outermost call."""

    block: Any
    is_recording: bool


class GluonHooks:
    """Replaces ``Block.__call__``.

    Outermost calls are always observed: they tell the outputs of losses, and eval steps. All others only at captured
    steps.

    An eval step is a call of a trained block outside of ``autograd.record()`` and in predict mode, with the calls that
    follow until the next one or until the training continues.
    """

    def __init__(self, callbacks: StepCallbacks, guard: Guard, losses: Losses, note: Callable[[str], None]) -> None:
        self._callbacks, self._guard, self._losses = callbacks, guard, losses
        self._patches, self._local = Patches(), _Local()
        self._inner = InnerBlocks(guard, kind_of)
        facts = callbacks.facts
        self._loss_facts, self._fact = GluonLossFacts(self._graph_of_call), facts.of("facts about loss calls are")
        self._layers = facts.of("inputs and outputs of blocks are")
        self._evaluated = facts.of("losses of evaluation are", is_vital=True)
        self._training, self._evaluation = BlockCapture(note), BlockCapture(note)
        self._is_watched = self._is_evaluating = self._is_explicit = False
        self._trained: set[int] = set()
        """The ids of the parameters that trainers update."""
        self._belonging: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        self._bare: weakref.WeakKeyDictionary[Any, bool] = weakref.WeakKeyDictionary()
        """Whether blocks are without parameters."""
        self.roots: weakref.WeakSet[Any] = weakref.WeakSet()
        """The outermost blocks that were called while autograd recorded, without losses."""

    def take_loss_facts(self) -> Mapping[str, float]:
        """Return the facts about the loss calls of the step."""
        return self._fact.call(self._loss_facts.take) or {}

    def install(self) -> None:
        """Replace the method."""
        self._patches.replace(Block, "__call__", self._make_call)

    def uninstall(self) -> None:
        """Restore the method."""
        self._patches.restore()
        self._is_watched = self._is_evaluating = False

    # --- calls from the adapter ---------------------------------------------------------------------------

    def add_trained(self, parameters: Sequence[Any]) -> None:
        """Add parameters that a trainer updates."""
        self._trained.update(map(id, parameters))
        self._belonging.clear()

    def model_of(self, parameters: Sequence[Any]) -> Any | None:
        """Return the block that some parameters are in; None: none was called yet.

        It is the outermost one that was called. If that has only a part of them, because the script calls a method of
        the model, it is the smallest one alive that has all.
        """
        wanted = set(map(id, parameters))
        shares = [(len(wanted.intersection(map(id, _parameters(root)))), root) for root in self.roots]
        share, root = max(shares, key=lambda pair: pair[0], default=(0, None))
        if not 0 < share < len(wanted):
            return root if share else None
        sizes = [(block, set(map(id, _parameters(block)))) for block in live_instances(Block)]
        whole = [(len(those), block) for block, those in sizes if wanted <= those]
        return min(whole, key=lambda pair: pair[0], default=(0, root))[1]

    def begin(self, items: Sequence[CaptureItem]) -> None:
        """Capture the items in the train step that begins, or in the rest of it."""
        if self._is_watched:
            self._training.extend(items)
            return
        self._is_watched = True
        self._training.begin(items, "train")

    def end(self) -> CapturedArrays | None:
        """End the capture of the train step; return what was captured."""
        self._is_watched = False
        self._training.called.clear()
        captured = self._training.captured
        return None if captured.is_empty else captured

    def end_evaluation(self) -> None:
        """End the current eval step, if there is one."""
        if self._is_evaluating:
            self._is_evaluating = False
            self._callbacks.evaluation.end_step(self._evaluation.captured)

    def set_mode(self, *, is_evaluation: bool) -> None:
        """Follow the mode that the script has set."""
        self._is_explicit = is_evaluation
        if not is_evaluation:
            self.end_evaluation()

    # --- inside the user's forward pass -------------------------------------------------------------------

    def _make_call(self, original: Callable[..., Any]) -> Callable[..., Any]:
        local, guard, begin, end, keep = self._local, self._guard, self._begin, self._end, self._keep
        layers = self._layers

        def __call__(block: Any, *args: Any, **kwargs: Any) -> Any:
            depth = local.depth
            if depth and local.forward is None:
                return original(block, *args, **kwargs)
            call = None if depth else guard.run(begin, block)
            if local.forward is not None:
                guard.run(layers.call, keep, block, "input", args, is_outermost=not depth)
            local.depth = depth + 1
            try:
                outputs = original(block, *args, **kwargs)
            finally:
                local.depth = depth
                self._inner.end()
            if local.forward is not None:
                guard.run(layers.call, keep, block, "output", outputs, is_outermost=not depth)
            if not depth:
                local.forward = None
                if call is not None:
                    guard.run(end, call, args, outputs)
            return outputs

        return __call__

    def _begin(self, block: Any) -> _Call | None:
        """Begin an outermost call; return None if it is of no interest."""
        local, is_recording = self._local, autograd.is_recording()
        local.forward = None
        if self._is_loss(block):
            if not is_recording and not self._is_evaluating:
                return None
            forward = self._training if is_recording else self._evaluation
        elif is_recording:
            self.end_evaluation()
            self.roots.add(block)
            self._callbacks.timeline.begin_model()
            forward = self._training
        elif self._is_evaluated(block):
            self._begin_eval(block)
            forward = self._evaluation
        else:
            return None
        is_watched = self._is_watched if forward is self._training else True
        if is_watched and forward.has_items and id(block) not in forward.called:
            local.forward = forward
        forward.called.add(id(block))
        return _Call(block, is_recording)

    def _is_loss(self, block: Any) -> bool:
        """Return whether a block is a loss of Gluon, or one of the script at whose output a backward pass began."""
        return isinstance(block, Loss) or block in self._losses.criteria

    def _has_parameters(self, block: Any) -> bool:
        if block not in self._bare:
            self._bare[block] = not _parameters(block)
        return not self._bare[block]

    def _is_evaluated(self, block: Any) -> bool:
        if autograd.is_training() and not self._is_explicit:
            return False
        if block not in self._belonging:
            self._belonging[block] = any(id(parameter) in self._trained for parameter in _parameters(block))
        return self._belonging[block]

    def _begin_eval(self, block: Any) -> None:
        """Begin an eval step, unless the block is a further part of the model that one is being evaluated."""
        if self._is_evaluating and id(block) not in self._evaluation.called:
            return
        self.end_evaluation()
        for mean in self._losses.take_late():
            self._evaluated.call(mean.read)
        self._is_evaluating = True
        evaluation = self._callbacks.evaluation
        items = evaluation.begin_step()
        self._evaluation.begin(items, evaluation.mode())

    def _end(self, call: _Call, inputs: Sequence[Any], outputs: Any) -> None:
        """End an outermost call."""
        name, output = f"{call.block.name}_output_0", next(arrays_in(outputs), None)
        if output is None:
            return
        if not self._is_loss(call.block):
            if call.is_recording and self._has_parameters(call.block):
                self._losses.given = call.block.name, inputs
            elif call.is_recording:
                self._losses.candidate = call.block, LossOutput(name, output)
            return
        if not call.is_recording:
            mean = self._evaluated.call(mean_of, output)
            if mean is not None:
                self._callbacks.evaluation.record_loss(name, mean)
            return
        self._losses.add(name, output)
        if isinstance(call.block, Loss) and self._callbacks.loss_facts_step() is not None:
            begun = self._callbacks.cost.begin()
            self._fact.call(self._loss_facts.add, call.block, inputs)
            self._callbacks.cost.end(begun)

    def _graph_of_call(self) -> Any | None:
        """Return the graph of the only hybridized block that is called by the script; None if there are several."""
        graphs = [root._cached_graph for root in self.roots if getattr(root, "_active", False)]
        return graphs[0][1] if len(graphs) == 1 and graphs[0] else None

    def _keep(self, block: Any, side: str, values: Any, *, is_outermost: bool) -> None:
        """Keep the inputs or outputs of a block; the output of a loss is recorded as a loss."""
        forward, layer = self._local.forward, ("layers", f"{kind_of(block)}_{side}")
        if forward is None:
            return
        if not isinstance(block, Loss):
            if side == "input" and forward.names_layers:
                self._inner.begin(block, forward.keep_array)
            forward.keep(f"{block.name}_{side}", [(f"{side}s", *layer) if is_outermost else layer], values)
        elif side == "input":
            forward.keep(f"{block.name}_input", [*((role, *layer) for role in _LOSS_ROLES), layer], values)


def kind_of(block: Any) -> str:
    """Return what a block is, in lower case: its class, of an activation its function."""
    return str(block._alias()) if isinstance(block, Activation) else type(block).__name__.lower()


def _parameters(block: Any) -> Sequence[Any]:
    return list(block.collect_params().values())
