"""Every figure in a browser: drawn without errors, with malicious names escaped."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import plotly
import pytest
from playwright.sync_api import Page

sys.path.append(str(Path(__file__).parents[1] / "unit" / "charts"))

import every_figure

PLOTLY = Path(plotly.__file__).parent / "package_data" / "plotly.min.js"
HOVERED = ["window", "marked"]
MARKS = ", ".join(
    [*(f".{kind}layer path" for kind in ("scatter", "bar", "box", "pie", "icicle")), ".heatmaplayer image"]
)
DRAW = """async ([figures, marks, hovered]) => {
  const complaints = [];
  for (const level of ["warn", "error", "log", "trace"]) {
    console[level] = (...words) => complaints.push(words.join(" "));
  }
  const found = {};
  for (const [name, figure] of Object.entries(figures)) {
    const place = document.createElement("div");
    place.style.height = `${figure.layout.height ?? 340}px`;
    document.body.append(place);
    await Plotly.newPlot(place, figure.data, figure.layout, { displaylogo: false });
    if (hovered.includes(name)) {
      const last = figure.data.length - 1;
      const axes = (figure.data[last].xaxis ?? "x") + (figure.data[last].yaxis ?? "y");
      Plotly.Fx.hover(place, [{ curveNumber: last, pointNumber: 0 }], [axes]);
    }
    found[name] = {
      hover: [...place.querySelectorAll(".hoverlayer text")].map((each) => each.textContent).join(" "),
      texts: [...place.querySelectorAll("svg text")].map((each) => each.textContent),
      marks: place.querySelectorAll(marks).length,
      foreign: place.querySelectorAll("script, b, a[href], iframe, img").length,
    };
  }
  return { found, complaints, widest: document.documentElement.scrollWidth };
}"""


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    return every_figure.write_run(str(tmp_path_factory.mktemp("drawn") / "run"))


@pytest.mark.parametrize("kind", ["full", "empty", "malicious"])
def test_plotly_draws_every_figure(page: Page, made, kind: str) -> None:
    figures = {name: json.loads(shown.to_json()) for name, shown in every_figure.DRAWN[kind](made).items()}
    page.set_content("<!doctype html><body style='width:620px;font-family:sans-serif'></body>")
    page.add_script_tag(path=str(PLOTLY))
    said = page.evaluate(DRAW, [figures, MARKS, HOVERED if kind == "malicious" else []])
    assert said["complaints"] == []
    assert said["widest"] <= 1280
    for name, drawn in said["found"].items():
        title = figures[name]["layout"].get("title", {}).get("text")
        assert not title or any(drawn["texts"]), name
        assert (drawn["marks"] > 0) == (kind != "empty" and name != "words"), f"{name}: {drawn['marks']} marks"
        assert drawn["foreign"] == 0, name
        if kind == "malicious" and name in HOVERED:
            assert "<script>" in drawn["hover"], f"{name}: {drawn['hover'][:200]!r}"
        if kind == "malicious" and name != "window":  # shows names only on hover
            assert any("<scr" in text or "script" in text for text in drawn["texts"]), f"{name}: {drawn['texts'][:9]}"
