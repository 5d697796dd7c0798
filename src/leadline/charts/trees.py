"""Charts of boosted trees: labels, losses, feature importance and prediction quality."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import plotly.graph_objects as go

from leadline.charts import theme
from leadline.records.formatting import significant

if TYPE_CHECKING:
    from leadline.analysis.scores import Curve, Floats
    from leadline.analysis.trees import Loss

MAX_FEATURES: Final = 15
_MAX_BINS: Final = 60
_MAX_LABELLED_CLASSES: Final = 15
"""Maximum number of classes for which a confusion matrix shows counts in its cells."""
_MAX_CLASSES: Final = 200
_SHARE_SCALE: Final = ((0.0, "#e6edf8"), (1.0, "#17448f"))
"""One hue, with readable numbers on all shades."""
_NO_PREDICTIONS: Final = "no labels and predictions were captured"
_ROUND_AXIS: Final = "boosting round"


def class_sizes(counts: Floats) -> go.Figure:
    """Draw the number of labels of each class.

    Args:
        counts: ``(classes,)``, from ``statistics.boosting.class_counts``.
    """
    if not counts.sum():
        return theme.empty(_NO_PREDICTIONS)
    fig = _figure(x="class", y="samples (count)")
    classes, shares = np.arange(len(counts)), counts / counts.sum()
    hover = "class %{x}: %{y:,} samples, %{customdata:.3~g} %<extra></extra>"
    theme.add_bars(fig, "", classes, counts, theme.PALETTE[0], hover, customdata=np.round(100 * shares, 2))
    fig.update_xaxes(type="linear", tickmode="linear" if len(counts) <= 30 else "auto", dtick=1, showgrid=False)
    return fig.update_layout(bargap=0.3)


def distribution(values: Floats, *, x: str, has_zero: bool = False) -> go.Figure:
    """Draw a histogram of the finite values with bins of equal width.

    Args:
        values: ``(samples,)``: labels, or residuals.
        x: Axis title, with unit.
        has_zero: Whether a line marks zero.
    """
    finite = np.asarray(values, np.float64)[np.isfinite(values)]
    if not finite.size:
        return theme.empty(_NO_PREDICTIONS)
    counts, edges = np.histogram(finite, bins=_bin_count(finite))
    fig = _figure(x=x, y="samples (count)")
    bounds, hover = np.column_stack([edges[:-1], edges[1:]]), "%{customdata[0]:.3~g} to %{customdata[1]:.3~g}: %{y:,}"
    theme.add_bars(
        fig,
        "",
        (edges[:-1] + edges[1:]) / 2,
        counts,
        theme.PALETTE[0],
        f"{hover} samples<extra></extra>",
        width=np.diff(edges) * 0.96,
        customdata=bounds,
    )
    if has_zero:
        fig.add_vline(x=0, line={"color": theme.GREY, "width": 1, "dash": "dot"})
    return fig


def losses(
    curves: Sequence[Loss],
    *,
    title: str = "Loss against step",
    marks_best: bool = True,
) -> go.Figure:
    """Draw a loss (or metric) of each data set over the rounds; sets that are not trained on are dashed.

    Args:
        marks_best: Whether to mark the round with the lowest validation loss; for metrics, high may be good.
    """
    drawn = [loss for loss in curves if np.isfinite(loss.values).any()]
    if not drawn:
        return theme.empty("no loss was captured", title)
    stems = list(dict.fromkeys(loss.stem for loss in drawn))
    fig = _figure(title, y=theme.plain_text(stems[0] if len(stems) == 1 else "loss", 40))
    for index, loss in enumerate(drawn[: theme.MAX_SERIES]):
        is_validation = loss.role == "validation"
        line, mode = (
            {"width": 2, "dash": "dash" if is_validation else "solid"},
            "lines" if len(loss.steps) > 1 else "markers",
        )
        name = theme.plain_text(loss.name)
        theme.add_line(
            fig, index, name, loss.steps, theme.float32(loss.values), theme.VALUE_ON_HOVER, line=line, mode=mode
        )
        if marks_best and is_validation and len(loss.steps) > 1:
            _mark_best(fig, loss, index)
    return theme.set_series(_set_round_axis(fig), len(drawn), "losses")


def importance(values: Mapping[str, float], *, kind: str) -> go.Figure:
    """Draw the most important features, the first at the top.

    Args:
        values: Shares by feature, the largest first.
        kind: ``weight``, ``gain`` …
    """
    title = f"Importance by {theme.plain_text(kind, 30).replace('_', ' ')}"
    features = [(name, share) for name, share in values.items() if np.isfinite(share) and share > 0][:MAX_FEATURES]
    if not features:
        return theme.empty("no importance was captured", title)
    fig = _figure(title, x="share (%)")
    theme.add_bars(
        fig,
        "",
        [round(100 * share, 4) for _, share in features],
        list(range(len(features))),
        theme.PALETTE[0],
        "%{customdata}: %{x:.3~g} %<extra></extra>",
        orientation="h",
        customdata=[theme.plain_text(name) for name, _ in features],
    )
    ticks = [theme.plain_text(name, 24) for name, _ in features]
    fig.update_yaxes(
        autorange="reversed", showgrid=False, tickvals=list(range(len(features))), ticktext=ticks, title_text="feature"
    )
    theme.note_omitted(fig, len(values) - len(features), "features")
    return fig.update_layout(height=130 + 20 * max(4, len(features)), bargap=0.3)


def confusion(matrix: Floats | None, *, title: str = "Confusion matrix") -> go.Figure:
    """Draw labels in rows and predictions in columns, coloured by the share of the row.

    Args:
        matrix: ``(classes, classes)`` counts; None: not available.
    """
    if matrix is None or not matrix.sum():
        return theme.empty(_NO_PREDICTIONS, title)
    counts = matrix[:_MAX_CLASSES, :_MAX_CLASSES]
    row_sums = matrix.sum(axis=1)[:_MAX_CLASSES, None]
    shares = 100 * np.divide(counts, row_sums, out=np.full_like(counts, np.nan), where=row_sums > 0)
    fig = _figure(title, x="predicted class", y="class of the label")
    has_counts = len(counts) <= _MAX_LABELLED_CLASSES
    theme.add_heat_map(
        fig,
        None,
        None,
        theme.float32(shares),
        "label %{y}, predicted %{x}: %{customdata:,} samples, %{z:.3~g} %",
        scale=_SHARE_SCALE,
        title="share of the label (%)",
        zmin=0,
        zmax=100,
        customdata=counts,
        text=[[f"{count:,.0f}" for count in row] for row in counts.tolist()] if has_counts else None,
        texttemplate="%{text}" if has_counts else None,
        textfont={"size": 13},
        xgap=1,
        ygap=1,
    )
    ticks: dict[str, object] = {"showgrid": False, "constrain": "domain"}
    ticks |= {"tickmode": "linear", "dtick": 1} if len(counts) <= 30 else {}
    fig.update_xaxes(**ticks).update_yaxes(**ticks, autorange="reversed", scaleanchor="x")
    theme.note_omitted(fig, len(matrix) - len(counts), "classes")
    return fig.update_layout(height=min(720, 320 + 16 * len(counts)))


def class_accuracy(steps: Sequence[int], shares: Floats) -> go.Figure:
    """Draw the recall of each class over the rounds: the diagonal of the confusion matrix.

    Args:
        shares: ``(steps, classes)``, 0 to 1; NaN where a class has no labels.
    """
    class_indices = _columns_with_values(shares)
    if not class_indices:
        return theme.empty(_NO_PREDICTIONS)
    fig = _figure(y="recall (%)")
    for index, class_index in enumerate(class_indices[: theme.MAX_SERIES]):
        _add_line(fig, index, f"class {class_index}", steps, 100 * shares[:, class_index], "%{y:.3~g} %")
    fig.update_yaxes(range=[-2, 102])
    return theme.set_series(_set_round_axis(fig), len(class_indices), "classes")


def roc(curves: Mapping[str, Curve]) -> go.Figure:
    """Draw ROC curves with their AUC; the diagonal is random guessing."""
    if not curves:
        return theme.empty("no scores of two classes were captured")
    fig = _figure(x="false positive rate (ratio)", y="true positive rate (ratio)")
    for index, (name, curve) in enumerate(list(curves.items())[: theme.MAX_SERIES]):
        label = f"{name if name == 'micro' else f'class {theme.plain_text(name, 24)}'}, AUC {curve.auc:.3f}"
        x, hover = theme.float32(curve.false_positive), "%{x:.3f} → %{y:.3f}"
        theme.add_line(fig, index, label, x, theme.float32(curve.true_positive), hover, line={"width": 2})
    fig.add_trace(
        go.Scatter(
            x=[0, 1],
            y=[0, 1],
            name="random guessing",
            mode="lines",
            hoverinfo="skip",
            line={"color": theme.GREY, "width": 1, "dash": "dot"},
        )
    )
    theme.note_omitted(fig, len(curves) - theme.MAX_SERIES, "curves")
    fig.update_xaxes(range=[-0.01, 1.01], constrain="domain").update_yaxes(
        range=[-0.01, 1.01], scaleanchor="x", constrain="domain"
    )
    return theme.set_legend(fig.update_layout(height=460))


def error_by_bin(steps: Sequence[int], errors: Floats, edges: Floats) -> go.Figure:
    """Draw the mean absolute error of the labels in each bin over the rounds, from blue (smallest) to orange.

    Args:
        errors: ``(steps, bins)``, in the label's unit; NaN for a bin without samples.
        edges: ``(bins + 1,)``.
    """
    bin_indices = _columns_with_values(errors)
    if not bin_indices:
        return theme.empty(_NO_PREDICTIONS)
    fig = _figure(y="mean absolute error (unit of the label)")
    for index, bin_index in enumerate(bin_indices):
        name = f"{significant(edges[bin_index])} to {significant(edges[bin_index + 1])}"
        _add_line(
            fig, index, name, steps, errors[:, bin_index], theme.VALUE_ON_HOVER, index / max(1, len(bin_indices) - 1)
        )
    fig.update_yaxes(rangemode="tozero")
    fig.update_layout(hovermode="x unified")
    return theme.set_legend(_set_round_axis(fig))


def _columns_with_values(values: Floats) -> list[int]:
    """Return the indices of the columns with a finite value; [] if there are no columns."""
    return np.flatnonzero(np.isfinite(values).any(axis=0)).tolist() if values.ndim > 1 else []


def _add_line(
    fig: go.Figure,
    index: int,
    name: str,
    steps: Sequence[int],
    values: Floats,
    hover: str,
    position: float | None = None,
) -> None:
    line = {"width": 2} if position is None else {"width": 2, "color": _blend_colour(position), "dash": "solid"}
    mode = "lines+markers" if len(steps) < 3 else "lines"
    theme.add_line(fig, index, name, list(steps), theme.float32(values), hover, line=line, mode=mode)


def _mark_best(fig: go.Figure, loss: Loss, index: int) -> None:
    best_index = int(np.nanargmin(np.where(np.isfinite(loss.values), loss.values, np.nan)))
    fig.add_trace(
        go.Scatter(
            x=[int(loss.steps[best_index])],
            y=theme.float32(loss.values[best_index : best_index + 1]),
            mode="markers",
            showlegend=False,
            marker={"color": theme.series_colour(index), "size": 9, "symbol": "circle-open", "line": {"width": 2}},
            hovertemplate="lowest<extra></extra>",
        )
    )


def _set_round_axis(fig: go.Figure) -> go.Figure:
    """Make x an axis of rounds, clipped to the recorded ones."""
    rounds = [trace.x[at] for trace in fig.data if len(trace.x) for at in (0, -1)]
    fig.update_xaxes(autorangeoptions={"clipmin": min(rounds), "clipmax": max(rounds)} if rounds else None)
    return theme.set_step_axis(fig, _ROUND_AXIS)


def _figure(title: str = "", **axes: Any) -> go.Figure:
    """Return a figure; without a title it has a smaller top margin."""
    fig = theme.figure(title, **axes)
    return fig if title else fig.update_layout(margin={"t": 14})


def _bin_count(finite: Floats) -> int:
    """Return the number of bins: the square root of the number of samples, within bounds."""
    return int(max(10, min(_MAX_BINS, np.sqrt(finite.size))))


def _blend_colour(position: float) -> str:
    """Return a colour between blue and orange, readable on light and dark."""
    ends = [[int(colour[at : at + 2], 16) for at in (1, 3, 5)] for colour in (theme.PALETTE[0], theme.PALETTE[1])]
    mixed = [round(low + (high - low) * position) for low, high in zip(*ends, strict=True)]
    return "#" + "".join(f"{channel:02x}" for channel in mixed)
