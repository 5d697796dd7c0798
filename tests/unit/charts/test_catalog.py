"""Catalog of charts: an entry is available on pages, in notebooks and in reports, with typed parameters."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import every_figure
import plotly.graph_objects as go
import pytest
from every_figure import Made
from starlette.datastructures import QueryParams
from starlette.testclient import TestClient

from leadline import charts, dashboard
from leadline.charts import step_charts
from leadline.charts.catalog import CATALOG
from leadline.charts.chart import CatalogChart, ChartView, Moment
from leadline.dashboard.app import create_app
from leadline.dashboard.chart_endpoint import READERS, read_parameters
from leadline.reports.files import render
from leadline.reports.section import Chapter, Chart, Report, Section
from leadline.reports.sources import Sources

TEMPLATES = Path(dashboard.__file__).parent / "templates"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Made:
    return every_figure.write_run(str(tmp_path_factory.mktemp("catalog") / "run"))


@pytest.fixture
def client(made: Made) -> Iterator[TestClient]:
    app = create_app(str(Path(made.run.path).parent))
    with TestClient(app, base_url="http://127.0.0.1:8321") as client:
        yield client


def test_one_entry_is_available_on_pages_in_notebooks_and_in_reports(
    made: Made, client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    @CatalogChart
    def fastest_steps(view: ChartView, limit: int = 5, *, worker: str | None = None) -> go.Figure:
        durations = sorted(view.steps(worker)["shortest_ns"].to_pylist())[:limit]
        return go.Figure(go.Bar(y=[duration / 1e9 for duration in durations]))

    monkeypatch.setitem(CATALOG, "fastest_steps", fastest_steps)
    in_notebook = charts.fastest_steps(made.run, 3, worker="rank0-7")
    on_page = client.get("/runs/run/charts/fastest_steps.json", params={"limit": 3, "worker": "rank0-7"}).json()
    in_report = fastest_steps(Sources(made.run).digest, 3, worker="rank0-7")
    drawn = list(in_notebook.data[0].y)
    assert len(drawn) == 3
    assert drawn == on_page["data"][0]["y"] == list(in_report.data[0].y)
    section = Section("fastest", "Fastest steps", charts=(Chart(in_report),))
    assert f"{drawn[0]}" in render(Report("run", "Report", (Chapter("steps", "Steps", (section,)),)))


def test_a_page_and_a_notebook_draw_the_same(made: Made, client: TestClient) -> None:
    for name in ("job", "progress", "step_timeline", "step_durations", "losses", "layers", "rank_times", "heat_map"):
        page = client.get(f"/runs/run/charts/{name}.json")
        assert page.status_code == 200, name
        assert page.text == CATALOG[name](made.run).to_json(), name


def test_parameters_of_a_query_have_the_types_of_the_chart() -> None:
    query = QueryParams("kind=cpu,gpu&metric=x&devices=core0,core1&node=a&is_mean=1&title=T&points=9&unknown=1")
    assert read_parameters(CATALOG["metrics_over_time"], query) == {
        "kind": ["cpu", "gpu"],
        "metric": ["x"],
        "devices": ["core0", "core1"],
        "node": "a",
        "is_mean": True,
        "title": "T",
    }
    assert read_parameters(CATALOG["layers"], QueryParams("of=weights&by=l2")) == {
        "collection": "weights",
        "statistic": "l2",
    }
    assert read_parameters(CATALOG["call_tree"], QueryParams("between=eval:train&step=x")) == {
        "between": ("eval", "train")
    }
    assert read_parameters(CATALOG["scalar"], QueryParams("")) == {"name": ""}


@pytest.mark.parametrize("name", CATALOG)
def test_every_parameter_can_be_read_from_a_query(name: str) -> None:
    types = [parameter.annotation for parameter in CATALOG[name].parameters.values()]
    assert [each for each in types if each not in READERS and each != Moment] == []
    assert CATALOG[name].__doc__


def test_pages_draw_charts_of_the_catalog() -> None:
    drawn = {
        name for path in TEMPLATES.glob("*.html") for name in re.findall(r'data-chart="([^"]+)"', path.read_text())
    }
    assert len(drawn) > 20
    assert drawn - {"model"} <= set(CATALOG)


def test_a_chart_shows_a_view_of_a_run(made: Made) -> None:
    part = step_charts.step_durations(ChartView(made.digest, start_step=10, end_step=20), worker="rank0-7")
    assert part.data[0].x.tolist() == list(range(10, 20))
    assert inspect.signature(step_charts.step_durations).parameters.keys() == {"view", "worker", "mode", "is_log"}


def drawn(figure: go.Figure) -> list[Any]:
    return [list(each.x) for each in figure.data]


def test_a_run_and_its_digest_are_drawn_alike(made: Made) -> None:
    assert drawn(charts.step_durations(made.run)) == drawn(charts.step_durations(made.digest))
