"""What ``leadline doctor`` found, gathered once as plain values, and how it looks."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from leadline.cli.environment import EnvironmentCheck
from leadline.reader.run import Run
from leadline.records.formatting import counted, duration, share, size

_STYLES: Final = {"ok": "green", "note": "yellow", "bad": "red"}
_COUNTED: Final = (
    ("weights", "weight"),
    ("biases", "bias"),
    ("gradients", "gradient"),
    ("layers", "activation"),
    ("hyperparameters", "setting"),
    ("metrics", "metric"),
    ("scalars", "scalar"),
    ("feature_importance", "feature importance"),
    ("average_shap", "SHAP value"),
    ("trees", "column of trees"),
)


def gather(run: Run, reports: Sequence[Mapping[str, Any]], *, is_late: bool, limit: float) -> dict[str, Any]:
    """Everything that was found out about a training.

    Args:
        reports: What its processes say, the first rank's first.
        is_late: Whether the command was stopped because its time was over.
        limit: That time in seconds.
    """
    first: Mapping[str, Any] = reports[0] if reports else {}
    activations = _activations(run)
    kinds = {kind for each in reports for kind in each.get("module_kinds") or ()}
    status = run.status_document
    return {
        "framework": first.get("framework"),
        "processes": len(reports),
        "steps": dict(first.get("steps") or {}),
        "models": list(first.get("models") or ()),
        "optimizers": list(first.get("optimizers") or ()),
        "losses": list(first.get("losses") or ()),
        "captured": {name: len(run.tensor_names(collection=name)) for name, _ in _COUNTED},
        "activations": activations,
        "functions": sorted(set(activations) - kinds) if kinds else [],
        "uncovered": _uncovered(reports, first, is_late=is_late, limit=limit),
        "notes": list(dict.fromkeys(note for each in reports for note in each.get("notes") or ())),
        "step_seconds": _seconds(first.get("step_ns")),
        "prices": _prices(first, has_activations=bool(activations) or _has_boosters(first)),
        "exit_status": status.get("exit_status"),
        "stopped_by": status.get("stopped_by"),
    }


def _activations(run: Run) -> dict[str, int]:
    """How many outputs were captured of each kind of module or function."""
    found: dict[str, int] = {}
    for name in run.tensor_names(collection="layers"):
        kinds = {each.removesuffix("_output") for each in run.tensor(name).collections if each.endswith("_output")}
        for kind in kinds:
            found[kind] = found.get(kind, 0) + 1
    return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))


def _uncovered(
    reports: Sequence[Mapping[str, Any]], first: Mapping[str, Any], *, is_late: bool, limit: float
) -> list[dict[str, str]]:
    found = {str(each["what"]): dict(each) for report in reports for each in report.get("uncovered") or ()}
    told = list(found.values())
    if not reports:
        why = (
            "the command may train with none of PyTorch, XGBoost, LightGBM and leadline.Hook, may start Python with "
            "-I, -E, -S or an environment of its own, or make no backward pass (torch.func)"
        )
        told.append({"what": "no training was seen", "why": why})
    if is_late:
        made = counted(int((first.get("steps") or {}).get("train", 0)), "step")
        told.append({"what": f"{made} in {duration(limit)}", "why": "longer is looked at with --limit SECONDS"})
    return told


def _has_boosters(report: Mapping[str, Any]) -> bool:
    return any(each.get("features") for each in report.get("models") or ())


def _seconds(time_ns: int | None) -> float | None:
    return None if time_ns is None else time_ns / 1e9


def _prices(report: Mapping[str, Any], *, has_activations: bool) -> list[dict[str, Any]]:
    """What each plan would cost: seconds and bytes."""
    if not report.get("step_ns") or report.get("base_ns") is None:
        return []
    kinds = ("forward", "accuracy") if has_activations else ()
    return [_price(each, report, {kind: report.get(f"{kind}_ns") or 0 for kind in kinds}) for each in report["prices"]]


def _price(price: Mapping[str, Any], report: Mapping[str, Any], watching: Mapping[str, int]) -> dict[str, Any]:
    """What a plan would cost.

    Args:
        watching: What watching a forward pass takes in ns, and what its accuracy alone does; empty: none is watched.
    """
    parts, base_ns = list(price["parts"]), report["base_ns"]
    own_ns = base_ns + sum(each["share"] * (each["own_ns"] - base_ns) for each in parts)
    own_ns += sum(price[f"{kind}_share"] * cost_ns for kind, cost_ns in watching.items())
    return {
        "label": price["label"],
        "step_share": own_ns / report["step_ns"],
        "capture_seconds": max((each["own_ns"] for each in parts), default=0) / 1e9,
        "capture_every": _interval(sum(each["share"] for each in parts)),
        "capture_bytes": max((each["bytes"] for each in parts), default=0),
        "activations_seconds": watching.get("forward", 0) / 1e9,
        "activations_every": _interval(price["forward_share"]) if watching else None,
        "bytes_per_1000_steps": round(1000 * sum(each["share"] * each["bytes"] for each in parts)),
    }


def _interval(share_of_steps: float) -> int | None:
    """Every how many steps something is captured; None: never."""
    return round(1 / share_of_steps) if share_of_steps else None


# --- how it looks -------------------------------------------------------------------------------------------


def checks(found: Iterable[EnvironmentCheck]) -> RenderableType:
    """A line a check."""
    table = Table.grid(padding=(0, 2))
    for each in found:
        table.add_row(
            Text(each.outcome, style=_STYLES[each.outcome]), Text(each.name), Text(each.said, overflow="fold")
        )
    return table


def page(found: Mapping[str, Any]) -> RenderableType:
    """What is watched, what is not, what it costs."""
    return Group(
        Text("\nwatched", style="bold"),
        _indented(_watched(found)),
        Text("\nnot watched", style="bold"),
        _indented(_not_watched(found)),
        Text("\nwhat it costs", style="bold"),
        _indented(_cost(found)),
    )


def _indented(what: RenderableType) -> RenderableType:
    return Padding(what, (0, 0, 0, 2))


def _watched(found: Mapping[str, Any]) -> RenderableType:
    captured = found["captured"]
    plurals = {"bias": "biases", "column of trees": "columns of trees"}
    rows = {
        "models": [_model(each) for each in found["models"]],
        "optimizers": [_optimizer(each) for each in found["optimizers"]],
        "losses": [f"{each['name']} ({each['place']})" for each in found["losses"]],
        "modes": [", ".join(counted(count, f"{mode} step") for mode, count in found["steps"].items())],
        "activations": [", ".join(f"{kind} {count}" for kind, count in found["activations"].items())],
        "functions": [", ".join(found["functions"])],
        "captured": [
            ", ".join(counted(captured[name], noun, plurals.get(noun, "")) for name, noun in _COUNTED if captured[name])
        ],
        "processes": [counted(found["processes"], "process", "processes")] if found["processes"] > 1 else [],
    }
    table = Table.grid(padding=(0, 2))
    for name, lines in rows.items():
        for index, line in enumerate(line for line in lines if line):
            table.add_row(Text("" if index else name, style="dim"), Text(line, overflow="fold"))
    return table if table.row_count else Text("nothing", style="yellow")


def _model(each: Mapping[str, Any]) -> str:
    if each.get("features"):
        return f"{each['name']}: {counted(each['features'], 'feature')} ({each.get('objective') or 'no objective'})"
    wrapper = f" in {each['wrapper']}" if each["wrapper"] else ""
    trainable = "all trainable" if each["trainable"] == each["parameters"] else f"{each['trainable']:,} trainable"
    kinds = ", ".join([*each["dtypes"], *each["devices"]])
    return f"{each['name']}{wrapper}: {counted(each['parameters'], 'parameter')}, {trainable} ({kinds})"


def _optimizer(each: Mapping[str, Any]) -> str:
    kept = f", keeps {', '.join(each['variables'])}" if each["variables"] else ""
    return f"{each['name']}: {counted(each['parameters'], 'parameter')}, {counted(each['groups'], 'group')}{kept}"


def _not_watched(found: Mapping[str, Any]) -> RenderableType:
    lines = [Text.assemble((str(each["what"]), "yellow"), f": {each['why']}") for each in found["uncovered"]]
    lines += [Text(note, style="dim") for note in found["notes"]]
    return Group(*lines) if lines else Text("nothing that was looked for is missing", style="dim")


def _cost(found: Mapping[str, Any]) -> RenderableType:
    if not found["prices"]:
        return Text("not known: it takes two steps and more to find out", style="dim")
    table = Table.grid(padding=(0, 2))
    is_of_trees = _has_boosters(found)
    parts = ("settings", "importances, predictions") if is_of_trees else ("gradients, weights", "activations")
    heads = ("", "of step time", *parts, "on disk in 1,000 steps")
    table.add_row(*(Text(each, style="dim") for each in heads))
    for each in found["prices"]:
        table.add_row(
            Text(each["label"]),
            Text(share(each["step_share"])),
            Text(_capture(each["capture_seconds"], each["capture_every"])),
            Text(_capture(each["activations_seconds"], each["activations_every"])),
            Text(size(each["bytes_per_1000_steps"])),
        )
    step = f"a step takes {_brief(found['step_seconds'])}; own time in the training's thread, found in {_steps(found)}"
    return Group(table, Text(step, style="dim"))


def _capture(seconds: float, every: int | None) -> str:
    if every is None:
        return "–"
    return f"{_brief(seconds)} every {'step' if every == 1 else f'{every} steps'}"


def _steps(found: Mapping[str, Any]) -> str:
    return counted(int(found["steps"].get("train", 0)), "step")


def _brief(seconds: float) -> str:
    """``12 µs``, ``4.2 ms``, ``1.3 s``."""
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if seconds < limit:
            value = seconds * factor
            return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"
    return duration(seconds)
