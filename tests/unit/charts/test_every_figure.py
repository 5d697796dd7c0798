"""Properties of all figures: units, messages instead of zeros, small JSON, escaped names."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import every_figure
import plotly.graph_objects as go
import pytest
from every_figure import Made

_WITHOUT_AXES = {"pie", "job_phases", "icicle"}
_MOST_BYTES = 100_000
_UNITLESS = {"step", "loss", "rank", "elements (count)", "row", "column", "magnitude"}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Made:
    return every_figure.write_run(str(tmp_path_factory.mktemp("figures") / "run"))


@pytest.fixture(scope="module")
def full(made: Made) -> dict[str, go.Figure]:
    return every_figure.full(made)


def _texts(given: Any) -> Iterator[str]:
    """Return all text that Plotly draws: everything except metadata for the page's code."""
    if isinstance(given, dict):
        for key, each in given.items():
            if key not in ("customdata", "meta", "bdata", "ids", "parents"):
                yield from _texts(each)
    elif isinstance(given, list):
        for each in given:
            yield from _texts(each)
    elif isinstance(given, str):
        yield given


def test_every_figure_module_is_drawn(full: dict[str, go.Figure]) -> None:
    """Every public function of the imported figure modules must be called in ``every_figure``."""
    source = Path(every_figure.__file__).read_text(encoding="utf-8")
    modules = ("phases", "profiles", "scalars", "step_figures", "usage", "values")
    for name in modules:
        module = getattr(every_figure, name)
        charts = [
            each
            for each, found in vars(module).items()
            if callable(found)
            and getattr(found, "__annotations__", {}).get("return") == "go.Figure"
            and found.__module__ == module.__name__
            and not each.startswith("_")
        ]
        assert charts, name
        assert [each for each in charts if f"{name}.{each}(" not in source] == [], name


def test_axes_have_units_and_no_superfluous_titles(full: dict[str, go.Figure]) -> None:
    for name, fig in full.items():
        if name in _WITHOUT_AXES:
            continue
        for axis in (*fig.select_xaxes(), *fig.select_yaxes()):
            title = axis.title.text
            assert title not in ("value", "time (UTC)", "time"), name
            is_known = not title or title in _UNITLESS or "(" in title or name == "linked"
            assert is_known, f"{name}: {title!r} names no unit"
        if fig.layout.xaxis.type == "date":
            assert fig.layout.xaxis.hoverformat.endswith("%H:%M:%S UTC"), name


def test_what_is_plotted_is_named(full: dict[str, go.Figure]) -> None:
    """A chart of one series has a title, a chart of several has a legend, too."""
    for name, fig in full.items():
        drawn = [each for each in fig.data if each.type == "scatter" and each.showlegend is not False and each.name]
        assert len(drawn) < 2 or fig.layout.showlegend or name == "ridge", name


def test_every_figure_has_a_short_title(full: dict[str, go.Figure]) -> None:
    for name, fig in full.items():
        assert 0 < len(fig.layout.title.text) <= 60, name


def test_figures_have_no_ground_of_their_own_and_keep_what_the_viewer_zoomed(full: dict[str, go.Figure]) -> None:
    for name, fig in full.items():
        look = fig.layout.template.layout
        assert look.paper_bgcolor == look.plot_bgcolor == "rgba(0,0,0,0)", name
        assert fig.layout.uirevision == "kept", name


def test_figures_are_small_and_json(full: dict[str, go.Figure]) -> None:
    for name, fig in full.items():
        text = fig.to_json()
        assert len(text) < _MOST_BYTES, f"{name}: {len(text):,} bytes"
        assert "NaN" not in re.sub(r'"[^"]*"', '""', text), name  # JSON has no NaN outside of texts
        json.loads(text)


def test_missing_data_is_shown_as_a_message(made: Made) -> None:
    for name, fig in every_figure.empty(made).items():
        assert len(fig.data) == 0, name
        words = fig.layout.meta["empty"]
        assert len(words.split()) >= 3, name
        assert words in {each.text.replace("<br>", " ") for each in fig.layout.annotations}, name


def test_malicious_names_are_escaped(made: Made) -> None:
    for name, fig in every_figure.malicious(made).items():
        drawn = list(_texts(json.loads(fig.to_json())))
        told = [each for each in drawn if "script" in each]
        assert told, f"{name}: the name is not shown at all"
        for each in drawn:
            assert not re.search(r"<(?!br>|extra>|/extra>)", each), f"{name}: {each[:90]!r} holds markup"
            assert "$" not in each, f"{name}: {each[:90]!r} may be read as a formula"
            assert "\u202e" not in each, name
            assert "\x00" not in each, name
        for each in told:
            assert not re.search(r"%\{x\}", each.replace("step %{x}", "")), f"{name}: {each[:90]!r} is a template"
            assert len(each) < 600, f"{name}: {len(each):,} characters of a name"
        assert len(fig.to_json()) < 2 * _MOST_BYTES, name


def test_a_time_axis_has_milliseconds_since_the_epoch(full: dict[str, go.Figure]) -> None:
    from leadline.testing.runs import START_NS

    for name in ("usage", "heat_map", "over_time", "progress", "marked_time", "linked"):
        fig = full[name]
        assert fig.layout.xaxis.type == "date"
        assert fig.layout.meta["axis"] == "time"
        first = min(float(min(each.x)) for each in fig.data if each.x is not None)
        assert abs(first - START_NS / 1e6) < 120_000, name
