"""The report of ``leadline doctor``: results collected as plain values, and their display."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from leadline.cli.environment import EnvironmentCheck
from leadline.cli.training_diagnosis import PlanCost, TrainingDiagnosis
from leadline.reader.run import Run
from leadline.records.doctor_report import DoctorReport, ModelEntry, OptimizerEntry, PlanPrice, UncapturedEntry
from leadline.records.formatting import counted, duration, share, size
from leadline.records.metric_names import PRINTED

_NOTHING: Final = cast(DoctorReport, {})
"""The report of a training that was not seen."""
_FEW_STEPS: Final = 5
_SHORT_STEP: Final = 1e-3
_CHECK: Final = "leadline check tests the training itself, on a copy of its first steps"
_STYLES: Final = {"ok": "green", "note": "yellow", "bad": "red"}
_COUNTED: Final = (
    ("weights", "weight"),
    ("biases", "bias"),
    ("gradients", "gradient"),
    ("layers", "activation"),
    ("hyperparameters", "setting"),
    ("metrics", "metric"),
    ("scalars", "scalar"),
    (PRINTED, "printed number"),
    ("feature_importance", "feature importance"),
    ("average_shap", "SHAP value"),
    ("trees", "column of trees"),
)


def gather(
    run: Run,
    reports: Sequence[DoctorReport],
    *,
    is_late: bool,
    limit: float,
    budgets: Mapping[str, float | None],
) -> TrainingDiagnosis:
    """Collect the results of a training as plain values.

    Args:
        reports: The reports of its processes, that of the first rank first.
        is_late: Whether the command was stopped by the time limit.
        limit: The time limit in seconds.
        budgets: The overhead budget of each plan by its label; None: it has none.
    """
    first = reports[0] if reports else _NOTHING
    activations = _activations(run)
    kinds = {kind for report in reports for kind in report.get("module_kinds") or ()}
    status, steps = run.status_document, dict(first.get("steps") or {})
    captured = {name: len(run.tensor_names(collection=name)) for name, _ in _COUNTED}
    gaps = _coverage_gaps(reports, first, is_late=is_late, limit=limit)
    gaps += _losses_not_seen(run, steps)
    if not gaps and steps.get("train") and not _has_boosters(first):
        gaps += [
            {"what": f"no {noun}", "why": f"none was captured in {counted(steps['train'], 'train step')}"}
            for name, noun in _COUNTED
            if name in ("weights", "gradients", "layers") and not captured[name]
        ]
    return {
        "framework": first.get("framework"),
        "processes": len(reports),
        "steps": steps,
        "models": list(first.get("models") or ()),
        "optimizers": list(first.get("optimizers") or ()),
        "losses": list(first.get("losses") or ()),
        "captured": captured,
        "activations": activations,
        "functions": sorted(set(activations) - kinds) if kinds else [],
        "uncovered": gaps,
        "notes": [
            *dict.fromkeys(
                note
                for report in reports
                for note in report.get("notes") or ()
                if not any(gap["why"] in note for gap in gaps)
            ),
            *([f"no evaluation was seen in these {counted(steps['train'], 'step')}"] if [*steps] == ["train"] else []),
        ],
        "step_seconds": _seconds(first.get("step_ns")),
        "steps_measured": first.get("steps_measured") or 0,
        "is_overloaded": any(report.get("is_overloaded") for report in reports),
        "once_seconds": _seconds(first.get("once_ns")),
        "prices": _prices(first, budgets, has_activations=bool(activations) or _has_boosters(first)),
        "exit_status": status.exit_status,
        "stopped_by": status.stopped_by,
    }


def _activations(run: Run) -> dict[str, int]:
    """The number of captured outputs for each kind of module or function."""
    counts: Counter[str] = Counter()
    for name in run.tensor_names(collection="layers"):
        collections = run.tensor(name).collections
        counts.update({kind.removesuffix("_output") for kind in collections if kind.endswith("_output")})
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _coverage_gaps(
    reports: Sequence[DoctorReport], first: DoctorReport, *, is_late: bool, limit: float
) -> list[UncapturedEntry]:
    by_subject = {str(gap["what"]): gap for report in reports for gap in report.get("uncovered") or ()}
    gaps = list(by_subject.values())
    if not reports:
        why = (
            "the command may not use PyTorch, XGBoost, LightGBM or leadline.Hook, may start Python with -I, -E, -S or "
            "in another environment, or makes no backward pass (torch.func)"
        )
        gaps.append({"what": "no training was seen", "why": why})
    if is_late:
        steps = counted(int((first.get("steps") or {}).get("train", 0)), "step")
        gaps.append({"what": f"{steps} in {duration(limit)}", "why": "use --limit SECONDS for a longer time limit"})
    return gaps


def _losses_not_seen(run: Run, steps: Mapping[str, int]) -> list[UncapturedEntry]:
    """The modes of which steps were seen, but no loss."""
    seen = {mode for name in run.tensor_names(collection="losses") for mode in run.tensor(name).modes()}
    why = (
        "no loss call, and no module whose output backward() was called on, was seen in {}; what a function of the "
        "script computes can be logged: leadline.log(loss=value)"
    )
    words = {"train": "no loss", "eval": "an evaluation without losses"}
    return [
        {"what": what, "why": why.format(counted(steps[mode], f"{mode} step"))}
        for mode, what in words.items()
        if steps.get(mode) and mode not in seen
    ]


def _has_boosters(report: DoctorReport | TrainingDiagnosis) -> bool:
    return any(model.get("features") for model in report.get("models") or ())


def _seconds(time_ns: int | None) -> float | None:
    return None if time_ns is None else time_ns / 1e9


@dataclass(frozen=True, slots=True)
class MeasuredSteps:
    """What a step takes without overhead, and what Leadline takes of one, by what it captures."""

    step_ns: int
    base_ns: int
    """Nothing."""
    forward_ns: int = 0
    """A forward pass; 0: there are none."""
    accuracy_ns: int = 0
    """The accuracy of a forward pass alone."""
    captures_share: float = 0.0
    """The share of the budget that is left for captures."""


def _prices(report: DoctorReport, budgets: Mapping[str, float | None], *, has_activations: bool) -> list[PlanCost]:
    """The cost of each plan in seconds and bytes."""
    step_ns, base_ns = report.get("step_ns"), report.get("base_ns")
    if not step_ns or base_ns is None:
        return []
    measured = MeasuredSteps(step_ns, base_ns, captures_share=report["captures_share"])
    if has_activations:
        measured = replace(
            measured, forward_ns=report.get("forward_ns") or 0, accuracy_ns=report.get("accuracy_ns") or 0
        )
    return [
        _price(plan, measured, budgets.get(plan["label"]), has_activations=has_activations) for plan in report["prices"]
    ]


def _price(price: PlanPrice, measured: MeasuredSteps, budget: float | None, *, has_activations: bool) -> PlanCost:
    """The cost of a plan, as the budget lets it be, and without that.

    The budget delays captures. It pays steps without captures first, and leaves a part of itself for captures.
    """
    parts, base_ns = price["parts"], measured.base_ns
    own_ns = base_ns + sum(part["share"] * (part["own_ns"] - base_ns) for part in parts)
    own_ns += price["forward_share"] * measured.forward_ns + price["accuracy_share"] * measured.accuracy_ns
    wanted, least = own_ns / measured.step_ns, base_ns / measured.step_ns
    kept = wanted if budget is None else min(wanted, max(budget, least + measured.captures_share * budget))
    return {
        "label": price["label"],
        "step_share": kept,
        "budget": budget,
        "step_share_without_budget": wanted,
        "capture_seconds": max((part["own_ns"] for part in parts), default=0) / 1e9,
        "capture_every": _interval(sum(part["share"] for part in parts)),
        "capture_bytes": max((part["bytes"] for part in parts), default=0),
        "activations_seconds": measured.forward_ns / 1e9,
        "activations_every": _interval(price["forward_share"]) if has_activations else None,
        "bytes_per_1000_steps": round(1000 * sum(part["share"] * part["bytes"] for part in parts)),
    }


def _interval(share_of_steps: float) -> int | None:
    """The capture interval in steps; None if nothing is captured."""
    return round(1 / share_of_steps) if share_of_steps else None


# --- display -----------------------------------------------------------------------------------------------


def checks(results: Iterable[EnvironmentCheck]) -> RenderableType:
    """One line for each check."""
    table = Table.grid(padding=(0, 2))
    for check in results:
        outcome = Text(check.outcome, style=_STYLES[check.outcome])
        table.add_row(outcome, Text(check.name), Text(check.message, overflow="fold"))
    return table


def page(training: TrainingDiagnosis) -> RenderableType:
    """Coverage, coverage gaps and overhead."""
    return Group(
        Text("\ncaptured", style="bold"),
        _indented(_coverage(training)),
        Text("\nnot captured", style="bold"),
        _indented(_gaps(training)),
        Text("\noverhead", style="bold"),
        _indented(_overhead(training)),
        *([Text(f"\n{_CHECK}")] if str(training["framework"] or "").startswith("torch") else []),
    )


def _indented(block: RenderableType) -> RenderableType:
    return Padding(block, (0, 0, 0, 2))


def _coverage(training: TrainingDiagnosis) -> RenderableType:
    captured = training["captured"]
    plurals = {"bias": "biases", "column of trees": "columns of trees"}
    counts = [counted(captured[name], noun, plurals.get(noun, "")) for name, noun in _COUNTED if captured[name]]
    rows = {
        "models": [_model(model) for model in training["models"]],
        "optimizers": [_optimizer(optimizer) for optimizer in training["optimizers"]],
        "losses": [f"{loss['name']} ({loss['place']})" for loss in training["losses"]],
        "modes": [", ".join(counted(count, f"{mode} step") for mode, count in training["steps"].items())],
        "activations": [", ".join(f"{kind} {count}" for kind, count in training["activations"].items())],
        "functions": [", ".join(training["functions"])],
        "tensors": [", ".join(counts)],
        "processes": [counted(training["processes"], "process", "processes")] if training["processes"] > 1 else [],
    }
    table = Table.grid(padding=(0, 2))
    for name, lines in rows.items():
        for index, line in enumerate(filter(None, lines)):
            table.add_row(Text("" if index else name, style="dim"), Text(line, overflow="fold"))
    return table if table.row_count else Text("nothing", style="yellow")


def _model(model: ModelEntry) -> str:
    if model.get("features"):
        return f"{model['name']}: {counted(model['features'], 'feature')} ({model.get('objective') or 'no objective'})"
    wrapper = f" in {model['wrapper']}" if model["wrapper"] else ""
    trainable = "all trainable" if model["trainable"] == model["parameters"] else f"{model['trainable']:,} trainable"
    kinds = ", ".join([*model["dtypes"], *model["devices"]])
    return f"{model['name']}{wrapper}: {counted(model['parameters'], 'parameter')}, {trainable} ({kinds})"


def _optimizer(optimizer: OptimizerEntry) -> str:
    state = f", state: {', '.join(optimizer['variables'])}" if optimizer["variables"] else ""
    sizes = f"{counted(optimizer['parameters'], 'parameter')}, {counted(optimizer['groups'], 'group')}"
    return f"{optimizer['name']}: {sizes}{state}"


def _gaps(training: TrainingDiagnosis) -> RenderableType:
    lines = [Text.assemble((str(gap["what"]), "yellow"), f": {gap['why']}") for gap in training["uncovered"]]
    lines += [Text(note, style="dim") for note in training["notes"]]
    return Group(*lines) if lines else Text("no coverage gaps found", style="dim")


def _overhead(training: TrainingDiagnosis) -> RenderableType:
    step_seconds = training["step_seconds"]
    if not training["prices"] or step_seconds is None:
        return Text("unknown: at least two steps are needed for an estimate", style="dim")
    table = Table.grid(padding=(0, 2))
    has_boosters = _has_boosters(training)
    parts = ("settings", "importances, predictions") if has_boosters else ("gradients, weights", "activations")
    titles = ("", "of step time", "without budget", *parts, "on disk in 1,000 steps")
    table.add_row(*(Text(title, style="dim") for title in titles))
    for price in training["prices"]:
        table.add_row(
            Text(price["label"]),
            Text(share(price["step_share"])),
            Text(share(price["step_share_without_budget"])),
            Text(_capture(price["capture_seconds"], price["capture_every"])),
            Text(_capture(price["activations_seconds"], price["activations_every"])),
            Text(size(price["bytes_per_1000_steps"])),
        )
    measured = counted(training["steps_measured"], "step")
    lines = [
        f"a step without overhead takes {_short_duration(step_seconds)} (median of {measured}); "
        "overhead in the training's thread"
    ]
    if training["once_seconds"]:
        lines.append(
            f"once, at the start: {_short_duration(training['once_seconds'])} for the first capture of everything, "
            "which is in no share"
        )
    if training["is_overloaded"]:
        lines.append("rough: the machine is overloaded, and waits for a processor count as the time of a step")
    if training["steps_measured"] < _FEW_STEPS:
        lines.append(f"rough: only {measured} measured; --steps 20 is more precise")
    elif step_seconds < _SHORT_STEP:
        lines.append("rough: steps are so short that their time varies with all that the machine does")
    return Group(table, *(Text(line, style="dim") for line in lines))


def _capture(seconds: float, every: int | None) -> str:
    if every is None:
        return "–"
    return f"{_short_duration(seconds)} every {'step' if every == 1 else f'{every} steps'}"


def _short_duration(seconds: float) -> str:
    """``12 µs``, ``4.2 ms``, ``1.3 s``."""
    for limit, factor, unit in ((1e-3, 1e6, "µs"), (1.0, 1e3, "ms")):
        if seconds < limit:
            value = seconds * factor
            return f"{value:.1f} {unit}" if value < 9.95 else f"{value:.0f} {unit}"
    return duration(seconds)
