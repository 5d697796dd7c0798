"""The call tree of a Python profile, small enough to be drawn."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from leadline.reader.python_profiles import Flame

_MOST: Final = 400
ROOT: Final = "0"


@dataclass(frozen=True, slots=True)
class CallNode:
    """A function, called along one way."""

    id: str
    parent: str
    """"": it is the root."""
    function: str
    file: str
    line: int
    total_ns: int
    """With all that it called."""
    own_ns: int


@dataclass(slots=True)
class _Node:
    total_ns: int = 0
    children: dict[tuple[str, str, int], _Node] = field(default_factory=dict)


def call_tree(slices: Iterable[tuple[dict[str, Any], list[Flame]]], *, most: int = _MOST) -> list[CallNode]:
    """The calls of all slices as one tree, callers before what they call.

    Args:
        slices: As ``CallTrees.flames`` gives them.
        most: So many calls; what takes least is left to its caller's own time.
    Returns:
        The root first; empty: there were no samples.
    """
    root = _Node()
    for _, flames in slices:
        _take(root, flames)
    _sum_up(root)
    if not root.total_ns:
        return []
    least = _least(root, most)
    found: list[CallNode] = []
    _tell(root, ("all", "", 0), ROOT, "", least, found)
    return found


def _take(root: _Node, flames: list[Flame]) -> None:
    """Add calls that come in the order of time, callers first; each lies within the last open one that holds it."""
    open_calls: list[tuple[int, _Node]] = []
    for each in flames:
        end_ns = each.start_ns + each.duration_ns
        while open_calls and open_calls[-1][0] <= each.start_ns and open_calls[-1][0] < end_ns:
            open_calls.pop()
        above = open_calls[-1][1] if open_calls else root
        node = above.children.setdefault((each.function, each.file, each.line), _Node())
        node.total_ns += each.duration_ns
        open_calls.append((end_ns, node))


def _sum_up(root: _Node) -> None:
    """Let no call take less than what it called: times of samples are rounded one by one."""
    order, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        order.append(node)
        waiting += node.children.values()
    for node in reversed(order):
        node.total_ns = max(node.total_ns, sum(each.total_ns for each in node.children.values()))


def _least(root: _Node, most: int) -> int:
    """What a call has to take to be among so many."""
    sizes, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        sizes.append(node.total_ns)
        waiting += node.children.values()
    sizes.sort(reverse=True)
    return sizes[most] + 1 if len(sizes) > most else 1


def _tell(node: _Node, place: tuple[str, str, int], id: str, parent: str, least: int, found: list[CallNode]) -> None:
    kept = [(each, child) for each, child in node.children.items() if child.total_ns >= least]
    kept.sort(key=lambda each: (-each[1].total_ns, each[0]))
    own = node.total_ns - sum(child.total_ns for _, child in kept)
    found.append(CallNode(id, parent, *place, node.total_ns, max(0, own)))
    for at, (name, child) in enumerate(kept):
        _tell(child, name, f"{id}.{at}", id, least, found)
