"""Reference implementation of step and phase times: a plain loop over timeline rows, without numpy."""

from __future__ import annotations

from collections.abc import Iterable

from leadline.records.names import PHASES
from leadline.testing.runs import Part, TimelineEvent


def phases_of_steps(run_parts: Iterable[Part]) -> dict[tuple[str, str, int], dict[str, float]]:
    """Return ``step``, each phase without nested phases, and ``other``, in ns, by worker, mode and step."""
    rows = [(part.worker, part.event) for part in run_parts if isinstance(part, TimelineEvent)]
    found = {
        (worker, each.phase, each.step): {"step": float(each.duration_ns)}
        for worker, each in rows
        if each.name == "step"
    }
    for worker, each in rows:
        cell = found.get((worker, each.phase, each.step))
        if cell is None or each.name not in PHASES:
            continue
        cell[each.name] = cell.get(each.name, 0.0) + each.duration_ns
        outer = each.args.get("within")
        if outer in PHASES:
            cell[outer] = cell.get(outer, 0.0) - each.duration_ns
    for cell in found.values():
        known = sum(value for name, value in cell.items() if name != "step")
        cell["other"] = max(0.0, cell["step"] - known)
    return found
