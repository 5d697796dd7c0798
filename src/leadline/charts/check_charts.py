"""Catalog of charts: what the probes of ``leadline check`` have seen."""

from __future__ import annotations

from typing import Any, Final

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from leadline.charts import theme
from leadline.charts.chart import CatalogChart, ChartView
from leadline.reader.checks import read_checks
from leadline.records.check_result import InputSample
from leadline.records.json_object import JsonObject

_MAX_IMAGES: Final = 4
_LARGEST: Final = 30.0
"""The largest multiple of an update that is drawn."""
_TITLES: Final = {
    "mixed_samples": "Change of each prediction if a sample is replaced",
    "look_ahead": "Change of the prediction at each position if a token changes",
    "unlearnable_batch": "Loss while the copy learns its one batch",
    "update_size": "Loss along the update",
    "model_inputs": "First samples as the model gets them",
}


@CatalogChart
def check_evidence(view: ChartView, *, probe: str = "", worker: str | None = None) -> go.Figure:
    """Draw what a probe has seen: who influences whom, the loss along steps or the update, the first samples.

    Args:
        probe: The name of the probe.
        worker: The worker that was checked; None: the first.
    """
    checks = read_checks(view.run.path)
    results = checks.get(worker, []) if worker else next(iter(checks.values()), [])
    evidence = next((result.evidence for result in results if result.probe == probe), {})
    title = _TITLES.get(probe, probe)
    if "matrix" in evidence:
        is_time = probe == "look_ahead"
        nouns = ("position", "token") if is_time else ("sample", "sample")
        return _matrix(evidence["matrix"], evidence.get("changed", []), title, *nouns)
    if isinstance(evidence.get("losses"), dict):
        return _curves(evidence["losses"], title)
    if isinstance(evidence.get("losses"), list):
        return _along(evidence["losses"], title)
    images = next((sample for sample in evidence.get("samples", ()) if "images" in sample), None)
    if images is not None:
        return _images(images, title)
    rows = next((sample for sample in evidence.get("samples", ()) if "rows" in sample), None)
    return _rows(rows, title) if rows is not None else theme.empty("nothing to draw", title)


def has_picture(evidence: JsonObject) -> bool:
    """Return whether there is something to draw of the evidence of a probe."""
    samples = evidence.get("samples") or ()
    return bool(evidence.get("matrix") or evidence.get("losses") or any({"images", "rows"} & set(s) for s in samples))


def _matrix(matrix: list[list[float]], rows: list[int], title: str, predicted: str, changed: str) -> go.Figure:
    fig = go.Figure(
        go.Heatmap(
            z=matrix,
            y=list(map(str, rows)),
            colorscale=theme.MAGNITUDE_SCALE,
            colorbar={"title": "in std"},
            hovertemplate=f"{changed} %{{y}} changes the prediction of {predicted} %{{x}} by %{{z:.3g}}<extra></extra>",
        )
    )
    fig.update_layout(title=title, height=220)
    fig.update_xaxes(title=f"prediction of {predicted}")
    fig.update_yaxes(title=f"changed {changed}", autorange="reversed", type="category")
    return fig


def _curves(losses: dict[str, list[float]], title: str) -> go.Figure:
    fig = go.Figure()
    for at, (name, values) in enumerate(losses.items()):
        fig.add_scatter(y=values, name=name, mode="lines", line={"color": theme.PALETTE[at % len(theme.PALETTE)]})
    fig.update_layout(title=title, height=280)
    fig.update_xaxes(title="step on the copy")
    fig.update_yaxes(title="loss", type="log" if all(_is_positive(curve) for curve in losses.values()) else "linear")
    return fig


def _is_positive(values: list[float]) -> bool:
    return all(value is not None and value > 0 for value in values)


def _along(points: list[list[float]], title: str) -> go.Figure:
    known = [(multiple, loss) for multiple, loss in points if loss is not None and multiple <= _LARGEST]
    fig = go.Figure(
        go.Scatter(
            x=[f"{multiple:g}" for multiple, _ in known],
            y=[loss for _, loss in known],
            mode="lines+markers",
            line={"color": theme.PALETTE[0]},
        )
    )
    fig.update_layout(title=title, height=260)
    fig.update_xaxes(title="multiple of the update", type="category")
    fig.update_yaxes(title="loss of the batch")
    return fig


def _images(sample: InputSample, title: str) -> go.Figure:
    pictures = sample["images"][:_MAX_IMAGES]
    fig = make_subplots(cols=len(pictures), horizontal_spacing=0.02)
    for column, channels in enumerate(pictures, 1):
        if len(channels) == 1:
            trace: Any = go.Heatmap(z=channels[0], colorscale="gray", showscale=False, hoverinfo="z")
        else:
            trace = go.Image(z=[list(map(list, zip(*rows, strict=True))) for rows in zip(*channels, strict=True)])
        fig.add_trace(trace, row=1, col=column)
        fig.update_xaxes(visible=False, constrain="domain", row=1, col=column)
        fig.update_yaxes(
            visible=False, autorange="reversed", scaleanchor=f"x{column if column > 1 else ''}", row=1, col=column
        )
    fig.update_layout(title=f"{title}: {sample['name']}, {sample['low']:.3g} to {sample['high']:.3g}", height=200)
    return fig


def _rows(sample: InputSample, title: str) -> go.Figure:
    fig = go.Figure(go.Heatmap(z=sample["rows"], colorscale=theme.MAGNITUDE_SCALE, colorbar={"title": "value"}))
    fig.update_layout(title=f"{title}: {sample['name']}", height=200)
    fig.update_xaxes(title="element")
    fig.update_yaxes(title="sample", autorange="reversed", dtick=1)
    return fig
