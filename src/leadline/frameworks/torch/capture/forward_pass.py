"""One forward pass of a step: what is captured of it, and which modules took part."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import torch

from leadline.frameworks.torch.capture.forward_capture import AccuracyCounts, CapturedTensors, tensors_in
from leadline.frameworks.torch.timing.flops import FlopCount
from leadline.instrumentation.guard import Facts
from leadline.records.plan import CaptureItem

_MAX_REPEATS: Final = 4
"""Further calls of a module in one step after which what is called between its calls is no longer captured."""
_MAX_NODES: Final = 20_000
"""Graph nodes that are searched; beyond them a loss is taken to depend on what is searched for."""


class ForwardPass:
    """The tensors, accuracy and operations of the outermost modules that one step calls.

    Attributes:
        roots: The ids of these modules; each is captured at its first call.
        is_open: Whether the current call, or what runs between the calls, is captured.
        is_past_backward: Whether the backward pass has begun, after which no tensor is captured.
        has_gradients: Whether a module was called with gradients.
        is_shallow: Whether modules were called of which nothing inside was observed.
        repeated: Of a pass that began when a module was called again: the graph nodes, by sequence number, of the
            outputs of that module's earlier call.
    """

    def __init__(self, warn: Callable[[str], None], facts: Facts) -> None:
        """
        Args:
            warn: Called with a message about something that cannot be captured.
        """
        self.captured = CapturedTensors(warn)
        self._statistics, self._accuracy = facts.of("statistics of forward passes are"), facts.of("accuracies are")
        self.accuracy = AccuracyCounts()
        self.flops = FlopCount()
        self.roots: set[int] = set()
        self.is_open = self.is_past_backward = self.has_gradients = self.is_shallow = False
        self._warn, self._repeats = warn, 0
        self.repeated: frozenset[int] = frozenset()
        self._outputs: dict[int, frozenset[int]] = {}

    def begin(self, items: Sequence[CaptureItem], mode: str) -> None:
        """Discard everything, and begin a pass."""
        self.captured.begin(items, mode)
        self.accuracy.begin(items)
        self.flops.clear()
        self.roots, self._outputs, self.repeated = set(), {}, frozenset()
        self.is_open = True
        self.is_past_backward = False
        self.has_gradients = self.is_shallow = False
        self._repeats = 0

    def join(self, outermost: torch.nn.Module, *, is_grad: bool) -> None:
        """Begin a call of an outermost module, which is captured unless the module was called before."""
        self.is_open = id(outermost) not in self.roots
        if is_grad and not self.has_gradients:
            self.has_gradients, self._repeats = True, 0  # passes before, such as rollouts, were of another kind
        self._repeats += not self.is_open
        self.roots.add(id(outermost))

    def reopen(self) -> None:
        """Capture what is called between the calls of modules, unless these are repeated without end."""
        self.is_open = self._repeats <= _MAX_REPEATS
        if not self.is_open and self.captured.has_items and not self.is_past_backward:
            self._warn(f"what follows more than {_MAX_REPEATS} further passes of a model in one step is not captured")

    def note_outputs(self, outermost: torch.nn.Module, output: Any) -> None:
        """Remember the graph nodes of the outputs of an outermost module's captured call."""
        nodes = [tensor.grad_fn for tensor in tensors_in(output)]
        self._outputs[id(outermost)] = frozenset(node._sequence_nr() for node in nodes if node is not None)

    def outputs_of(self, outermost: torch.nn.Module) -> frozenset[int]:
        """Return the graph nodes, by sequence number, of the outputs of a module's captured call."""
        return self._outputs.get(id(outermost), frozenset())

    def add(
        self, stem: str, side: str, collections: Callable[[int], tuple[str, ...]], tensors: Sequence[torch.Tensor]
    ) -> list[tuple[str, torch.Tensor]]:
        """Capture tensors; return them with their names.

        Args:
            stem, side: The beginning of their names: ``<stem>_<side>_<index>``.
            collections: Returns the collections of a tensor by its position.
        """
        names = (self.captured.next_name(f"{stem}_{side}") for _ in tensors)
        named = [(name, tensor) for name, tensor in zip(names, tensors, strict=True) if name is not None]
        if self.is_past_backward:
            return named
        self._statistics.call(self._capture, named, collections)
        return named

    def _capture(
        self, named: Sequence[tuple[str, torch.Tensor]], collections: Callable[[int], tuple[str, ...]]
    ) -> None:
        for index, (name, tensor) in enumerate(named):
            self.captured.add(name, collections(index), tensor)
        if len(named) > 1 and "labels" in collections(1):
            (_, predictions), (name, labels) = named[:2]
            self.captured.add_confusion(name, collections(1), labels, predictions)

    def finish(self) -> CapturedTensors:
        """Return what was captured."""
        self.captured.accuracy = self._accuracy.call(self.accuracy.take) or {}
        return self.captured


def choose_pass(candidates: Sequence[ForwardPass], outputs: Iterable[Any]) -> ForwardPass:
    """Return the pass that a backward pass belongs to: of the calls of a module the first that it depends on.

    Args:
        candidates: A pass for each time that a module was called again, in order.
        outputs: The tensors at which the backward pass begins.
    """
    nodes = [output.grad_fn for output in outputs if isinstance(output, torch.Tensor)]
    chosen = candidates[0]
    for candidate in candidates[1:]:
        if depends_on(nodes, candidate.repeated):
            break
        chosen = candidate
    return chosen


def depends_on(nodes: Iterable[Any], wanted: frozenset[int]) -> bool:
    """Return whether one of the nodes with these sequence numbers is reached from graph nodes.

    Nodes are numbered in the order of their creation, so that the graph behind older ones need not be searched.
    """
    if not wanted:
        return False
    oldest = min(wanted)
    pending = [node for node in nodes if node is not None]
    seen = set(pending)
    while pending:
        node = pending.pop()
        number = node._sequence_nr()
        if number in wanted or len(seen) > _MAX_NODES:
            return True
        if number > oldest:
            following = {parent for parent, _ in node.next_functions if parent is not None} - seen
            seen |= following
            pending += following
    return False
