"""Call tree of a Python profile, limited to a size that can be drawn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from leadline.profiles.python_profiles import Flame
from leadline.profiles.rows import SliceRow

_MAX_NODES: Final = 400
ROOT: Final = "0"
_OWN_FOLDERS: Final = ("/leadline/frameworks/", "/leadline/training/", "/leadline/store/")
"""The parts of the package that run in a training."""
_OWN_CALL: Final = ("Leadline overhead", "", 0)


@dataclass(frozen=True, slots=True)
class CallNode:
    """A function at one position in the call tree."""

    id: str
    parent: str
    """"" for the root."""
    function: str
    file: str
    line: int
    total_ns: int
    """Including the functions that it called."""
    own_ns: int


@dataclass(slots=True)
class _Node:
    total_ns: int = 0
    children: dict[tuple[str, str, int], _Node] = field(default_factory=dict)


def call_tree(slices: Iterable[tuple[SliceRow, list[Flame]]], *, limit: int = _MAX_NODES) -> list[CallNode]:
    """Merge the calls of all slices into one tree, callers before callees.

    Args:
        slices: As returned by ``CallTrees.flames``.
        limit: The maximum number of nodes; the shortest calls are added to the self time of their callers.
    Returns:
        The nodes, root first; empty if there were no samples.
    """
    root = _Node()
    for _, flames in slices:
        _add(root, flames)
    _propagate_times(root)
    if not root.total_ns:
        return []
    min_ns = _threshold_ns(root, limit)
    nodes: list[CallNode] = []
    _emit(root, ("all", "", 0), ROOT, "", min_ns, nodes)
    return nodes


def _add(root: _Node, flames: list[Flame]) -> None:
    """Add calls in the order of time, callers first; each belongs to the last open call that contains it.

    Functions of Leadline are left out: what they call belongs to their caller, which gets one call for the rest.
    """
    open_calls: list[tuple[int, _Node, _Node | None]] = []
    for flame in flames:
        end_ns = flame.start_ns + flame.duration_ns
        while open_calls and open_calls[-1][0] <= flame.start_ns and open_calls[-1][0] < end_ns:
            open_calls.pop()
        _, caller, own = open_calls[-1] if open_calls else (0, root, None)
        if is_own(flame.file):
            if own is None:
                own = caller.children.setdefault(_OWN_CALL, _Node())
                own.total_ns += flame.duration_ns
            open_calls.append((end_ns, caller, own))
            continue
        if own is not None:
            own.total_ns -= flame.duration_ns
        node = caller.children.setdefault((flame.function, flame.file, flame.line), _Node())
        node.total_ns += flame.duration_ns
        open_calls.append((end_ns, node, None))


def is_own(file: str) -> bool:
    """Return whether a function belongs to Leadline's part of the training process."""
    return any(folder in file.replace("\\", "/") for folder in _OWN_FOLDERS)


def _propagate_times(root: _Node) -> None:
    """Raise the time of calls to the sum of their callees', as sample times are rounded individually."""
    order, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting += node.children.values()
    for node in reversed(order):
        node.total_ns = max(node.total_ns, sum(child.total_ns for child in node.children.values()))


def _threshold_ns(root: _Node, limit: int) -> int:
    """Return the minimum time of the calls to keep."""
    sizes, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        sizes.append(node.total_ns)
        waiting += node.children.values()
    sizes.sort(reverse=True)
    return sizes[limit] + 1 if len(sizes) > limit else 1


def _emit(
    node: _Node, location: tuple[str, str, int], id: str, parent: str, min_ns: int, nodes: list[CallNode]
) -> None:
    kept = [(name, child) for name, child in node.children.items() if child.total_ns >= min_ns]
    kept.sort(key=lambda item: (-item[1].total_ns, item[0]))
    own_ns = node.total_ns - sum(child.total_ns for _, child in kept)
    nodes.append(CallNode(id, parent, *location, node.total_ns, max(0, own_ns)))
    for index, (name, child) in enumerate(kept):
        _emit(child, name, f"{id}.{index}", id, min_ns, nodes)
