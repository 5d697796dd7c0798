"""Charts of boosted trees: labels, losses, importances, and how good the predictions are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go

from leadline.figures import theme

if TYPE_CHECKING:
    from leadline.analysis.scores import Curve, Floats
    from leadline.analysis.trees import Loss

MOST_FEATURES: Final = 15
_MOST_BINS: Final = 60
_MOST_WRITTEN: Final = 15
"""Classes up to which the counts stand in the cells of a confusion matrix."""
_MOST_CLASSES: Final = 200
_SHARES: Final = ((0.0, "#e6edf8"), (1.0, "#17448f"))
"""One hue, on which numbers can be read everywhere."""
_NO_ANSWERS: Final = "no labels and predictions were captured"
_ROUND: Final = "boosting round"


def class_sizes(counts: Floats, *, title: str = "Samples by class", missing: str = _NO_ANSWERS) -> go.Figure:
    """How many labels are of each class.

    Args:
        counts: ``(classes,)``, as ``statistics.boosting.class_counts`` gives them.
    """
    if not counts.sum():
        return theme.empty(missing, title)
    shown = _figure(title, x="class", y="samples (count)")
    classes, shares = np.arange(len(counts)), counts / counts.sum()
    shown.add_trace(
        go.Bar(
            x=classes,
            y=counts,
            customdata=np.round(100 * shares, 2),
            marker={"color": theme.PALETTE[0]},
            hovertemplate="class %{x}: %{y:,} samples, %{customdata:.3g} %<extra></extra>",
        )
    )
    shown.update_xaxes(type="linear", tickmode="linear" if len(counts) <= 30 else "auto", dtick=1, showgrid=False)
    return shown.update_layout(bargap=0.3)


def spread(values: Floats, *, title: str, x: str, has_zero: bool = False, missing: str = _NO_ANSWERS) -> go.Figure:
    """How often a number has which value: bins of equal width over the finite ones.

    Args:
        values: ``(samples,)``: labels, or residuals.
        x: Title of the axis, with its unit.
        has_zero: Whether a line marks zero.
    """
    finite = np.asarray(values, np.float64)[np.isfinite(values)]
    if not finite.size:
        return theme.empty(missing, title)
    counts, edges = np.histogram(finite, bins=_bins(finite))
    shown = _figure(title, x=x, y="samples (count)")
    shown.add_trace(
        go.Bar(
            x=(edges[:-1] + edges[1:]) / 2,
            y=counts,
            width=np.diff(edges) * 0.96,
            marker={"color": theme.PALETTE[0]},
            customdata=np.column_stack([edges[:-1], edges[1:]]),
            hovertemplate="%{customdata[0]:.5g} to %{customdata[1]:.5g}: %{y:,} samples<extra></extra>",
        )
    )
    if has_zero:
        shown.add_vline(x=0, line={"color": theme.GREY, "width": 1, "dash": "dot"})
    return shown


def losses(
    found: Sequence[Loss],
    *,
    title: str = "Loss against step",
    marks_best: bool = True,
    missing: str = "no loss was captured",
) -> go.Figure:
    """A loss (or metric) of each set over the rounds; what is not trained on is dashed.

    Args:
        marks_best: Whether the round at which a validation loss is lowest is marked; of metrics high may be good.
    """
    known = [each for each in found if np.isfinite(each.values).any()]
    if not known:
        return theme.empty(missing, title)
    stems = list(dict.fromkeys(each.stem for each in known))
    shown = _figure(title, y=theme.plain(stems[0] if len(stems) == 1 else "loss", 40))
    for place, each in enumerate(known[: theme.MOST_SERIES]):
        is_validation = each.role == "validation"
        line = {"color": theme.colour(place), "width": 2, "dash": "dash" if is_validation else "solid"}
        shown.add_trace(
            go.Scatter(
                x=each.steps,
                y=theme.numbers(each.values),
                name=theme.plain(each.name),
                line=line,
                mode="lines" if len(each.steps) > 1 else "markers",
                hovertemplate="%{y:.6g}",
            )
        )
        if marks_best and is_validation and len(each.steps) > 1:
            _mark_best(shown, each, place)
    theme.left_out(shown, len(known) - theme.MOST_SERIES, "losses")
    shown.update_layout(hovermode="x unified" if len(known) <= 10 else "closest")
    return theme.set_legend(_by_round(shown))


def importance(values: Mapping[str, float], *, kind: str, missing: str = "none was captured") -> go.Figure:
    """The most important features, the first at the top.

    Args:
        values: Shares by feature, the largest first.
        kind: ``weight``, ``gain`` …
    """
    title = f"Importance by {theme.plain(kind, 30).replace('_', ' ')}"
    found = [(name, each) for name, each in values.items() if np.isfinite(each) and each > 0][:MOST_FEATURES]
    if not found:
        return theme.empty(missing, title)
    shown = _figure(title, x="share (%)")
    shown.add_trace(
        go.Bar(
            x=[round(100 * each, 4) for _, each in found],
            y=list(range(len(found))),
            orientation="h",
            marker={"color": theme.PALETTE[0]},
            customdata=[theme.plain(name) for name, _ in found],
            hovertemplate="%{customdata}: %{x:.3g} %<extra></extra>",
        )
    )
    ticks = [theme.plain(name, 24) for name, _ in found]
    shown.update_yaxes(
        autorange="reversed", showgrid=False, tickvals=list(range(len(found))), ticktext=ticks, title_text="feature"
    )
    theme.left_out(shown, len(values) - len(found), "features")
    return shown.update_layout(height=130 + 20 * max(4, len(found)), bargap=0.3)


def confusion(matrix: Floats | None, *, title: str = "Confusion matrix", missing: str = _NO_ANSWERS) -> go.Figure:
    """Labels in rows, predictions in columns; coloured by the share of the row.

    Args:
        matrix: ``(classes, classes)`` counts; None: there is none.
    """
    if matrix is None or not matrix.sum():
        return theme.empty(missing, title)
    drawn = matrix[:_MOST_CLASSES, :_MOST_CLASSES]
    rows = matrix.sum(axis=1)[:_MOST_CLASSES, None]
    shares = 100 * np.divide(drawn, rows, out=np.full_like(drawn, np.nan), where=rows > 0)
    shown = _figure(title, x="predicted class", y="class of the label")
    is_written = len(drawn) <= _MOST_WRITTEN
    shown.add_trace(
        go.Heatmap(
            z=theme.numbers(shares),
            customdata=drawn,
            zmin=0,
            zmax=100,
            colorscale=_SHARES,
            hoverongaps=False,
            hovertemplate="label %{y}, predicted %{x}: %{customdata:,} samples, %{z:.3g} %<extra></extra>",
            colorbar={"title": {"text": "of the label (%)", "side": "right"}, "thickness": 12, "outlinewidth": 0},
            text=[[f"{count:,.0f}" for count in row] for row in drawn.tolist()] if is_written else None,
            texttemplate="%{text}" if is_written else None,
            textfont={"size": 13},
            xgap=1,
            ygap=1,
        )
    )
    ticks: dict[str, Any] = {"showgrid": False, "constrain": "domain"}
    ticks |= {"tickmode": "linear", "dtick": 1} if len(drawn) <= 30 else {}
    shown.update_xaxes(**ticks).update_yaxes(**ticks, autorange="reversed", scaleanchor="x")
    theme.left_out(shown, len(matrix) - len(drawn), "classes")
    return shown.update_layout(height=min(720, 320 + 16 * len(drawn)))


def class_accuracy(
    steps: Sequence[int],
    shares: Floats,
    *,
    title: str = "Share of each class that is recognized",
    missing: str = _NO_ANSWERS,
) -> go.Figure:
    """The diagonal of the confusion matrix over the rounds: of each class the share that is predicted as it.

    Args:
        shares: ``(steps, classes)``, 0 to 1; NaN where a class has no labels.
    """
    known = [at for at in range(shares.shape[1] if shares.ndim > 1 else 0) if np.isfinite(shares[:, at]).any()]
    if not known:
        return theme.empty(missing, title)
    shown = _figure(title, y="recognized (%)")
    for place, at in enumerate(known[: theme.MOST_SERIES]):
        _add_line(shown, place, f"class {at}", steps, 100 * shares[:, at], "%{y:.3g} %")
    theme.left_out(shown, len(known) - theme.MOST_SERIES, "classes")
    shown.update_yaxes(range=[-2, 102])
    shown.update_layout(hovermode="x unified" if len(known) <= 10 else "closest")
    return theme.set_legend(_by_round(shown))


def roc(
    curves: Mapping[str, Curve], *, title: str = "ROC curve", missing: str = "no scores of two classes were captured"
) -> go.Figure:
    """How many positives are found at which price of false alarms, with the area below; the diagonal is guessing."""
    if not curves:
        return theme.empty(missing, title)
    shown = _figure(title, x="false positive rate (ratio)", y="true positive rate (ratio)")
    for place, (name, curve) in enumerate(list(curves.items())[: theme.MOST_SERIES]):
        label = f"{name if name == 'micro' else f'class {theme.plain(name, 24)}'}, AUC {curve.auc:.3f}"
        shown.add_trace(
            go.Scatter(
                x=theme.numbers(curve.false_positive),
                y=theme.numbers(curve.true_positive),
                name=label,
                mode="lines",
                line={"color": theme.colour(place), "width": 2, "dash": theme.dash(place)},
                hovertemplate="%{x:.3f} → %{y:.3f}",
            )
        )
    shown.add_trace(
        go.Scatter(
            x=[0, 1],
            y=[0, 1],
            name="guessing",
            mode="lines",
            hoverinfo="skip",
            line={"color": theme.GREY, "width": 1, "dash": "dot"},
        )
    )
    theme.left_out(shown, len(curves) - theme.MOST_SERIES, "curves")
    shown.update_xaxes(range=[-0.01, 1.01], constrain="domain").update_yaxes(
        range=[-0.01, 1.01], scaleanchor="x", constrain="domain"
    )
    return theme.set_legend(shown.update_layout(height=460))


def error_by_bin(
    steps: Sequence[int],
    errors: Floats,
    edges: Floats,
    *,
    title: str = "Absolute error by size of the label",
    missing: str = _NO_ANSWERS,
) -> go.Figure:
    """The mean absolute error of the labels in each bin over the rounds, from blue (smallest) to orange.

    Args:
        errors: ``(steps, bins)``, in the label's unit; NaN for a bin without samples.
        edges: ``(bins + 1,)``.
    """
    known = [at for at in range(errors.shape[1] if errors.ndim > 1 else 0) if np.isfinite(errors[:, at]).any()]
    if not known:
        return theme.empty(missing, title)
    shown = _figure(title, y="mean absolute error (unit of the label)")
    for place, at in enumerate(known):
        name = f"{edges[at]:.4g} to {edges[at + 1]:.4g}"
        _add_line(shown, place, name, steps, errors[:, at], "%{y:.4g}", place / max(1, len(known) - 1))
    shown.update_yaxes(rangemode="tozero")
    shown.update_layout(hovermode="x unified")
    return theme.set_legend(_by_round(shown))


def _add_line(
    shown: go.Figure,
    place: int,
    name: str,
    steps: Sequence[int],
    values: Floats,
    hover: str,
    shade: float | None = None,
) -> None:
    hue = theme.colour(place) if shade is None else _shade(shade)
    shown.add_trace(
        go.Scatter(
            x=list(steps),
            y=theme.numbers(values),
            name=name,
            mode="lines+markers" if len(steps) < 3 else "lines",
            line={"color": hue, "width": 2, "dash": theme.dash(place) if shade is None else "solid"},
            hovertemplate=hover,
        )
    )


def _mark_best(shown: go.Figure, loss: Loss, place: int) -> None:
    best = int(np.nanargmin(np.where(np.isfinite(loss.values), loss.values, np.nan)))
    shown.add_trace(
        go.Scatter(
            x=[int(loss.steps[best])],
            y=theme.numbers(loss.values[best : best + 1]),
            mode="markers",
            showlegend=False,
            marker={"color": theme.colour(place), "size": 9, "symbol": "circle-open", "line": {"width": 2}},
            hovertemplate="lowest<extra></extra>",
        )
    )


def _by_round(shown: go.Figure) -> go.Figure:
    """Rounds along the x axis, and no more of it than there are."""
    rounds = [each.x[at] for each in shown.data if len(each.x) for at in (0, -1)]
    shown.update_xaxes(autorangeoptions={"clipmin": min(rounds), "clipmax": max(rounds)} if rounds else None)
    return theme.set_step_axis(shown, _ROUND)


def _figure(title: str, **axes: Any) -> go.Figure:
    """A figure; without a title it begins higher up."""
    shown = theme.figure(title, **axes)
    return shown if title else shown.update_layout(margin={"t": 14})


def _bins(finite: Floats) -> int:
    """As many bins as suit the samples, by the square root of their number."""
    return int(max(10, min(_MOST_BINS, np.sqrt(finite.size))))


def _shade(place: float) -> str:
    """A colour between blue and orange, readable on light and dark."""
    ends = [[int(each[at : at + 2], 16) for at in (1, 3, 5)] for each in (theme.PALETTE[0], theme.PALETTE[1])]
    mixed = [round(low + (high - low) * place) for low, high in zip(*ends, strict=True)]
    return "#" + "".join(f"{each:02x}" for each in mixed)
