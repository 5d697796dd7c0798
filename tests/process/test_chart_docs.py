"""The charts of docs/how-to/notebook-charts.md on a real run: the code works unchanged and draws the data."""

from __future__ import annotations

import ast
import gzip
import json
import re
import warnings
from pathlib import Path
from typing import Any

import plotly.graph_objects as go
import pyarrow as pa
import pytest
from launching import PATIENCE, script, watched
from timelines import training

from leadline import charts
from leadline.charts import notebook
from leadline.charts.catalog import CATALOG
from leadline.testing.runs import RunWriter

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "notebook-charts.md"
EMPTY = {
    'charts.metrics_over_time(run, "gpu", "memory_used_percent")': "no GPU on this node",
    'charts.metrics_over_time(run, "network", "received_bytes_per_second", start="1s")': "network not sampled in this",
    "charts.rank_times(run)": "single rank: nothing to compare",
    "charts.rank_step_times(run)": "single rank: nothing to compare",
    'charts.scalar_group(run, "metrics")': "no metric was logged",
    "charts.tensor_image(run, gradient, 0)": "there is no matrix to draw",
    'charts.check_evidence(run, probe="unlearnable_batch")': "nothing to draw",
}
"""Start of the messages of charts that may have no data with one process, no GPU, and a training of a second."""


def evaluate(code: str) -> dict[str, Any]:
    """Run code; return the value of each expression statement, as a notebook would display it."""
    names: dict[str, Any] = {}
    shown: dict[str, Any] = {}
    tree = ast.parse(code)
    cells = [cell for node in tree.body for cell in (node.body if isinstance(node, ast.If) else [node])]
    for node in cells:
        text = ast.unparse(node).replace("'", '"')
        if isinstance(node, ast.Expr):
            shown[text] = eval(compile(ast.Expression(node.value), str(PAGE), "eval"), names)
        else:
            exec(compile(ast.Module([node], []), str(PAGE), "exec"), names)
    return shown


@pytest.mark.slow
def test_all_code_of_the_page_works_on_a_real_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = ("default", "pyinstrument:at=20,for=5", "detailed:at=30,for=2")
    options = [word for option in asked for word in ("--profile", option)]
    options += ["--capture", "gradients:every=10,statistics=histogram", "--capture", "weights:every=20,raw=true"]
    run = watched(options, script("profiled.py"), "watched", "60", folder=tmp_path).run
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LEADLINE_ROOT", str(Path(run.path).parent))
    code = "\n".join(re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL))
    shown = evaluate(code)
    assert len(shown) > 25
    empty = {
        text: value.layout.meta["empty"]
        for text, value in shown.items()
        if isinstance(value, go.Figure) and not value.data
    }
    assert empty.pop("charts.value(run, gradient, 0)").startswith("gradient/")
    assert {text: words for text, words in empty.items() if not words.startswith(EMPTY.get(text, "?"))} == {}
    tables = [value for value in shown.values() if isinstance(value, pa.Table)]
    assert [table.num_rows > 0 for table in tables[:2]] == [True, True]
    with gzip.open(tmp_path / "timeline.json.gz", "rt") as file:
        assert json.load(file)["traceEvents"]
    weight = run.tensor_names(collection="weights")[0]
    assert charts.value(run, weight, 20).data


@pytest.mark.slow
def test_a_notebook_displays_a_figure(tmp_path: Path) -> None:
    with warnings.catch_warnings(action="ignore"):  # raised by Jupyter itself
        from nbclient import NotebookClient
    from nbformat import v4

    steps = [{"data": 5.0, "forward": 20.0, "backward": 40.0}] * 20
    path = RunWriter(tmp_path / "run").write_all(training(steps)).end().path
    code = f"import leadline\nfrom leadline import charts\ncharts.step_timeline(leadline.open_run({path!r}))"
    notebook = v4.new_notebook(cells=[v4.new_code_cell(code)])
    with warnings.catch_warnings(action="ignore"):
        NotebookClient(notebook, timeout=PATIENCE, kernel_name="python3").execute()
    (shown,) = notebook.cells[0].outputs
    figure = shown["data"]["application/vnd.plotly.v1+json"]
    assert {trace["name"] for trace in figure["data"]} == {"data loading", "forward", "backward"}
    assert figure["layout"]["title"]["text"] == "Phases of steps 0 to 19"


def test_every_chart_is_documented_on_the_page() -> None:
    text = PAGE.read_text()
    public = (*CATALOG, *notebook.__all__)
    assert [name for name in public if name[0].islower() and f"charts.{name}(" not in text] == []
