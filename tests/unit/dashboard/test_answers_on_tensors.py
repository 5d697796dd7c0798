"""Tensors page: list, tensor over steps and at a step, download, layer heat map."""

from __future__ import annotations

import html
import io
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote_plus

import malicious_inputs
import numpy as np
import page_runs
import pytest
from starlette.testclient import TestClient

from leadline.config.capture import parse_capture
from leadline.dashboard import tensor_view as view
from leadline.records.series import Shard, TensorInfo
from leadline.testing.runs import Capture, RawTensors, RunWriter

Open = Callable[..., TestClient]
PAGE = {"accept": "text/html"}


@pytest.fixture
def client(tmp_path: Path, open_dashboard: Open) -> TestClient:
    page_runs.write_full_run(tmp_path / "story")
    return open_dashboard(tmp_path)


def chart(client: TestClient, kind: str, **query: Any) -> dict[str, Any]:
    answer = client.get(f"/runs/story/charts/{kind}.json", params=query)
    assert answer.status_code == 200, answer.text
    found: dict[str, Any] = answer.json()
    return found


def listed(text: str) -> list[str]:
    return [html.unescape(each) for each in re.findall(r'<td class="name"><a [^>]*><span title="([^"]*)"', text)]


def test_tensors_are_listed_and_filtered_by_text_and_collection(client: TestClient) -> None:
    everything = listed(client.get("/runs/story/tensors", headers=PAGE).text)
    assert sorted(everything) == ["a.weight", "gradient/a.weight", "gradient/b.weight", "loss"]
    chosen = client.get("/runs/story/tensors?collection=gradients&q=b WEIGHT", headers=PAGE).text
    assert listed(chosen) == ["gradient/b.weight"]
    assert "No tensors match" in client.get("/runs/story/tensors?q=nothing", headers=PAGE).text


def test_thousands_of_tensors_are_paged(tmp_path: Path, open_dashboard: Open) -> None:
    names = [f"layer{number:04d}.weight" for number in range(2300)]
    RunWriter(tmp_path / "story").write_all([Capture(0, {name: {"l2": 1.0} for name in names})]).end()
    client = open_dashboard(tmp_path)
    first = client.get("/runs/story/tensors", headers=PAGE).text
    assert listed(first) == names[:1000]
    assert "2,300 tensors, page 1 of 3" in first
    assert listed(client.get("/runs/story/tensors?page=3", headers=PAGE).text) == names[2000:]


def test_a_list_of_several_pages_is_sorted_as_a_whole(tmp_path: Path, open_dashboard: Open) -> None:
    shapes = {f"layer{number}.weight": (number % 700, 2) for number in range(1500)}
    run = RunWriter(tmp_path / "story", shapes=shapes)
    run.write_all([Capture(0, {name: {"l2": 1.0} for name in [*shapes, "other"]})]).end()
    client = open_dashboard(tmp_path)
    page = client.get("/runs/story/tensors?q=layer", headers=PAGE).text
    assert "Sorting applies" not in page
    head = re.search(r'<th class="number">\s*<a href="([^"]*)">Elements</a>', page)
    assert head is not None
    largest_first = sorted(shapes, key=lambda name: -shapes[name][0])
    link = html.unescape(head[1]).removesuffix("#list")
    page = client.get(f"/runs/story/tensors{link}", headers=PAGE).text
    assert listed(page) == largest_first[:1000]
    assert re.search(r'<th class="number" aria-sort="descending">\s*<a [^>]*>Elements', page)
    following = re.search(r'href="([^"]*)#list">next</a>', page)
    assert following is not None
    page = client.get(f"/runs/story/tensors{html.unescape(following[1])}", headers=PAGE).text
    assert listed(page) == largest_first[1000:]
    page = client.get("/runs/story/tensors?sort=name", headers=PAGE).text
    assert listed(page) == list(shapes)[:1000]
    assert client.get("/runs/story/tensors?sort=%22nonsense", headers=PAGE).status_code == 200


@pytest.mark.parametrize("sort", ["elements", "-elements", "shape", "-shape"])
def test_tensors_without_a_known_shape_are_last_in_both_directions(sort: str) -> None:
    shapes = {"first": (2, 3), "unknown": None, "last": (4,)}
    rows = [view.TensorRow(name, shape, "float32", (), 0, 0) for name, shape in shapes.items()]
    assert view.sort_rows(rows, sort)[-1].name == "unknown"


def test_the_losses_are_drawn_as_they_were_captured(client: TestClient) -> None:
    figure = chart(client, "scalar_group", group="losses")
    (line,) = [each for each in figure["data"] if each.get("mode") == "lines+markers"]
    assert decoded(line["y"]).tolist() == pytest.approx([1 / (step + 1) for step in range(10)])


def test_several_statistics_are_drawn_at_once_with_the_first_problem_of_the_run(client: TestClient) -> None:
    figure = chart(client, "tensor", name="gradient/a.weight", statistic="abs_mean,l2")
    names = [each["name"] for each in figure["data"] if each.get("mode") == "lines+markers"]
    assert ["abs_mean" in each or "l2" in each for each in names] == [True, True]
    assert [each["x0"] for each in figure["layout"]["shapes"]] == [5]
    assert any("not finite" in each.get("name", "") for each in figure["data"])
    other = chart(client, "tensor", name="gradient/b.weight", statistic="abs_mean")
    assert [each["x0"] for each in other["layout"]["shapes"]] == [5]  # though it does not name this tensor


def test_statistics_are_computed_for_raw_only_tensors(client: TestClient) -> None:
    figure = chart(client, "tensor", name="a.weight", statistic="max")
    (line,) = [each for each in figure["data"] if each.get("mode") == "lines+markers"]
    assert decoded(line["y"]).tolist() == [float(page_runs.WEIGHT.max()), float(page_runs.WEIGHT.max() + 5)]


def test_the_heat_map_shows_the_vanishing_row(client: TestClient) -> None:
    figure = chart(client, "layers", of="gradients", by="abs_mean")
    assert figure["layout"]["meta"]["rows"] == ["gradient/a.weight", "gradient/b.weight"]
    rows = decoded(figure["data"][0]["z"])
    assert rows[0].max() < -7.9
    assert rows[1].min() > -0.7


def test_values_are_shown_at_a_step_or_the_nearest_stored_one(client: TestClient) -> None:
    text = client.get("/runs/story/tensors", params={"name": "a.weight", "step": 5}, headers=PAGE).text
    told = re.search(r'<table class="tight values">(.*?)</table>', text, re.S)
    assert told is not None
    assert [float(each) for each in re.findall(r"<td>([^<]*)</td>", told[1])] == (page_runs.WEIGHT + 5).ravel().tolist()
    near = client.get("/runs/story/tensors", params={"name": "a.weight", "step": 9}, headers=PAGE).text
    assert "was not stored at this step; showing step 5" in near


def test_statistics_at_a_step_are_those_of_that_step(client: TestClient) -> None:
    text = client.get("/runs/story/tensors", params={"name": "gradient/a.weight", "step": 3}, headers=PAGE).text
    assert re.search(r'abs_mean</td><td class="number" data-value="4e-09">', text)


def test_a_step_with_several_statistics_counts_once(tmp_path: Path, open_dashboard: Open) -> None:
    parts = [Capture(step, {"w": {"nan_count": 0.0, **({} if step % 10 else {"l2": 1.0})}}) for step in range(100)]
    RunWriter(tmp_path / "story").write_all(parts).end()
    text = open_dashboard(tmp_path).get("/runs/story/tensors", params={"name": "w"}, headers=PAGE).text
    assert "100 steps, 0 to 99" in text


def test_steps_of_two_workers_count_once_and_the_nearest_is_selected(tmp_path: Path, open_dashboard: Open) -> None:
    parts = [Capture(step, {"w": {"l2": 1.0}}, worker=f"rank{rank}-1") for step in range(9000) for rank in (0, 1)]
    parts.append(Capture(20_000, {"w": {"nan_count": 3.0}}))
    RunWriter(tmp_path / "story", batch_rows=500).write_all(parts).end()
    client = open_dashboard(tmp_path)
    for asked, shown in ((4321, 4321), (8999, 8999), (15_500, 20_000), (None, 20_000)):
        query = {"name": "w"} if asked is None else {"name": "w", "step": asked}
        text = client.get("/runs/story/tensors", params=query, headers=PAGE).text
        assert "9,001 steps, 0 to 20,000" in text
        step = asked or 20_000
        expected = "<h3>Statistics</h3>" if shown == step else f"<h3>Statistics at step {shown:,}, the nearest captured"
        assert expected in text


def test_the_default_step_is_that_of_the_first_finding(client: TestClient) -> None:
    text = client.get("/runs/story/tensors", params={"name": "gradient/a.weight"}, headers=PAGE).text
    assert "At step 5" in text
    assert "gradient/a.weight vanishes" in text
    assert "rules#mine-1" in text


def test_a_download_loads_with_numpy(client: TestClient) -> None:
    answer = client.get("/runs/story/tensors.npy", params={"name": "a.weight", "step": 5, "worker": "rank0-1"})
    assert answer.headers["content-disposition"] == 'attachment; filename="a.weight-step5.npy"'
    found = np.load(io.BytesIO(answer.content), allow_pickle=False)
    assert found.dtype == np.float32
    assert np.array_equal(found, page_runs.WEIGHT + 5)
    assert client.get("/runs/story/tensors.npy", params={"name": "a.weight", "step": 4}).status_code == 404


def test_shards_are_shown_and_downloaded_as_the_whole(tmp_path: Path, open_dashboard: Open) -> None:
    whole = np.arange(20, dtype="<f4").reshape(5, 4)
    writer = RunWriter(tmp_path / "story")
    for step, blocks in ((0, (Shard((0, 0), (3, 4)), Shard((3, 0), (2, 4)))), (1, (Shard((0, 0), (3, 4)),))):
        for rank, block in enumerate(blocks):
            worker, values = f"rank{rank}-1", np.ascontiguousarray(whole[block.slices])
            info = TensorInfo("w", ("weights",), whole.shape, "float32", block)
            row = Capture(step, {"w": {"l2": 1.0}}, worker, infos={"w": info})
            writer.write_all([row, RawTensors(step, {"w": ("F32", values.shape, values.tobytes())}, worker)])
    writer.end()
    client = open_dashboard(tmp_path)
    text = client.get("/runs/story/tensors?name=w&step=0", headers=PAGE).text
    assert "Values: 5 × 4" in text
    assert "Download .npy (80 bytes)" in text
    assert ">19<" in text
    answer = client.get("/runs/story/tensors.npy?name=w&step=0&worker=")
    assert np.array_equal(np.load(io.BytesIO(answer.content), allow_pickle=False), whole)
    own = client.get("/runs/story/tensors.npy?name=w&step=0&worker=rank1-1")
    assert np.array_equal(np.load(io.BytesIO(own.content), allow_pickle=False), whole[3:])
    text = client.get("/runs/story/tensors?name=w&step=1", headers=PAGE).text
    assert "not all workers have stored their shards; choose a worker" in text
    assert client.get("/runs/story/tensors.npy?name=w&step=1").status_code == 404
    assert "Values: 3 × 4" in client.get("/runs/story/tensors?name=w&step=1&worker=rank0-1", headers=PAGE).text


@pytest.mark.parametrize(
    ("dtype", "data", "expected"),
    [
        ("BF16", b"\x80\x3f\x00\x40", [1.0, 2.0]),
        ("I64", np.arange(2, dtype="<i8").tobytes(), [0, 1]),
        ("BOOL", b"\x01\x00", [True, False]),
    ],
)
def test_a_download_of_any_type(
    dtype: str, data: bytes, expected: list[Any], tmp_path: Path, open_dashboard: Open
) -> None:
    RunWriter(tmp_path / "story").write_all(
        [RawTensors(0, {"x": (dtype, (2,), data), "none": (dtype, (0, 3), b"")})]
    ).end()
    client = open_dashboard(tmp_path)
    answer = client.get("/runs/story/tensors.npy?name=x&step=0")
    assert np.load(io.BytesIO(answer.content), allow_pickle=False).tolist() == expected
    empty = client.get("/runs/story/tensors.npy?name=none&step=0")
    assert np.load(io.BytesIO(empty.content), allow_pickle=False).shape == (0, 3)
    assert client.get("/runs/story/tensors?name=none", headers=PAGE).status_code == 200


def test_the_histogram_is_drawn_where_it_was_captured(client: TestClient) -> None:
    figure = chart(client, "histogram", name="gradient/a.weight")
    assert figure["data"][0]["type"] == "heatmap"
    assert chart(client, "histogram", name="gradient/a.weight", is_ridge="1")["data"][0]["type"] == "scatter"


def test_uncaptured_tensors_show_a_valid_capture_option(client: TestClient) -> None:
    text = html.unescape(client.get("/runs/story/tensors", params={"name": "gradient/b.weight"}, headers=PAGE).text)
    command = re.search(r"leadline run (--capture .*?) …", text)
    assert command is not None
    option, spoken = shlex.split(command[1])
    item = parse_capture(spoken)
    assert option == "--capture"
    assert item.raw
    assert re.search(str(item.regex), "gradient/b.weight")
    assert not re.search(str(item.regex), "gradient/bxweight")


def test_an_unknown_tensor_shows_a_message(client: TestClient) -> None:
    answer = client.get("/runs/story/tensors", params={"name": "gradient/c.weight"}, headers=PAGE)
    assert answer.status_code == 404
    assert "did you mean" in answer.text


@pytest.mark.parametrize("step", ["x", "-1", "9" * 40, "9" * 19, "1.5", "", "٣"])
def test_an_invalid_step_is_ignored(step: str, client: TestClient) -> None:
    asked = {"name": "a.weight", "step": step}
    assert client.get("/runs/story/tensors", params=asked, headers=PAGE).status_code == 200
    assert client.get("/runs/story/charts/value.json", params=asked).status_code == 200
    assert client.get("/runs/story/tensors.npy", params=asked).status_code == 404


def test_a_run_without_steps_shows_a_message(tmp_path: Path, open_dashboard: Open) -> None:
    RunWriter(tmp_path / "new")
    assert (
        "the first training step has not finished"
        in open_dashboard(tmp_path).get("/runs/new/tensors", headers=PAGE).text
    )


def test_malicious_names_are_text_and_have_a_page_each(tmp_path: Path, open_dashboard: Open) -> None:
    page_runs.write_malicious_run(tmp_path / "ill")
    client = open_dashboard(tmp_path)
    text = client.get("/runs/ill/tensors", headers=PAGE).text
    page_runs.expect_text_only(text)
    links = [html.unescape(each) for each in re.findall(r'<td class="name"><a href="([^"]+)"', text)]
    for name in malicious_inputs.NAMES:
        link = f"/runs/ill/tensors?name={quote_plus(name)}"
        assert link in links
        answer = client.get(link, headers=PAGE)
        assert answer.status_code == 200
        page_runs.expect_text_only(answer.text)
        figure = client.get("/runs/ill/charts/tensor.json", params={"name": name, "statistic": "l2"})
        assert figure.status_code == 200
        assert "<script" not in figure.text
        assert "<img" not in figure.text


def test_download_names_contain_no_path_characters() -> None:
    for name in (*malicious_inputs.NAMES, "..", "/", "a\r\nb"):
        assert re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,90}-step3\.npy", view.file_name(name, 3)), name


def test_first_values_are_truncated_with_a_description() -> None:
    table = view.first_values(np.arange(4000).reshape(100, 40))
    assert len(table.rows) == view.MAX_ROWS
    assert table.columns == view.MAX_COLUMNS
    assert table.description == "the first 288 of 4,000 values"
    assert table.rows[1] == ("[1]", tuple(map(str, range(40, 52))))


def decoded(values: Any) -> Any:
    """Decode Plotly's binary arrays."""
    import base64

    if isinstance(values, dict):
        found = np.frombuffer(base64.b64decode(values["bdata"]), np.dtype(values["dtype"]))
        return found.reshape([int(each) for each in str(values["shape"]).split(",")]) if "shape" in values else found
    return np.array(values, float)


def test_a_name_with_a_lone_surrogate_is_written_out(tmp_path: Path, open_dashboard: Open) -> None:
    name = "\ud800half"
    writer = RunWriter(tmp_path / "story")
    writer.write_all([Capture(0, {name: {"value": 1.0}}), RawTensors(0, {name: ("F32", (2,), bytes(8))})]).end()
    client = open_dashboard(tmp_path)
    assert listed(client.get("/runs/story/tensors", headers=PAGE).text) == ["\\ud800half"]
    page = client.get("/runs/story/tensors", params={"name": "\\ud800half"}, headers=PAGE)
    assert page.status_code == 200
