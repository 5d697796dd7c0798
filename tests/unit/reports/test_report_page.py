"""A report as one file: whole, without a network, with everything of the run as text."""

from __future__ import annotations

import json
import os
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import plotly.graph_objects as go
import pytest

from leadline.reports.html import render, write, write_whole
from leadline.reports.section import Chapter, Chart, Column, Report, Section, Table, empty

HOSTILE = "<script>alert(1)</script>"


class Outline(HTMLParser):
    """The elements, ids and texts of a page, as a browser's parser would find them."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.scripts: list[dict[str, str | None]] = []
        self.fetched: list[str] = []
        self.text: list[str] = []
        self.data: list[str] = []
        self._inside = ""
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self._inside = tag if tag in ("script", "style") else ""
        self.ids += [str(given["id"])] if "id" in given else []
        self.links += [str(given["href"])] if tag == "a" else []
        self.scripts += [given] if tag == "script" else []
        self.fetched += [f"{tag} {name}" for name in ("src", "srcset", "action", "data") if name in given]
        self.fetched += [f"{tag} href" for _ in [0] if tag in ("link", "base") and "href" in given]

    def handle_endtag(self, tag: str) -> None:
        self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "script" and self.scripts[-1].get("type") == "application/json":
            self.data.append(data)
        elif not self._inside:
            self.text.append(data)


def _report(name: str = "fine") -> Report:
    figure = go.Figure(go.Bar(x=[1, 2], y=[3, 4], name=name), go.Layout(title=name))
    inner = Section("inner", f"Inner {name}", (name,))
    section = Section(
        "one",
        f"One {name}",
        (f"said of {name}",),
        (Chart(figure, name, "half"), Chart(figure)),
        (Table((Column(name, "ms"),), ((name,), (1.5,)), name, left_out=3),),
        (inner,),
    )
    return Report(
        name,
        f"Report of {name}",
        (Chapter("first", "First", (section, empty("two", "Two", f"no {name}"))),),
        (("command", name),),
    )


def test_all_is_there_once_and_the_contents_lead_to_it() -> None:
    page = Outline(render(_report()))
    assert page.ids == ["first", "first-one", "first-one-inner", "first-two"]
    assert {each[1:] for each in page.links} == set(page.ids)
    for text in ("One fine", "said of fine", "no fine", "Inner fine", "and 3 more", "1.5", "ms", "Report of fine"):
        assert text in " ".join(page.text)


def test_nothing_is_fetched_from_anywhere() -> None:
    page = render(_report())
    assert Outline(page).fetched == []
    assert [each for each in Outline(page).scripts if each.get("type") is None] != []
    assert "default-src 'none'" in unescape(page)


def test_plotly_is_there_once_and_not_at_all_without_charts() -> None:
    with_charts, without = render(_report()), render(Report("x", "X", (Chapter("c", "C", ()),)))
    assert with_charts.count("plotly.js v") == 1
    assert len(without) < 20_000


@pytest.mark.parametrize(
    "name",
    [
        HOSTILE,
        '"><img src=x onerror=alert(1)>',
        "</script><script>alert(1)</script>",
        "<!--<script>",
        "../..",
        "🚀 émoji",
        "x" * 10_000,
        "{{ 7 * 7 }}",
        "\u2028",
    ],
)
def test_what_a_run_names_is_text(name: str) -> None:
    harmless, page = Outline(render(_report())), Outline(render(_report(name)))
    assert page.ids == harmless.ids
    assert len(page.scripts) == len(harmless.scripts)
    assert page.fetched == []
    assert [json.loads(each)["data"][0]["name"] for each in page.data] == [name, name]
    assert any(f"said of {name}" in each or len(name) > 1000 for each in page.text)
    assert all(len(each) <= 4000 for each in page.text)


def test_the_policy_names_the_scripts_that_are_there() -> None:
    import base64
    import hashlib

    page = render(_report())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 2
    for each in scripts:
        assert base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() in unescape(policy[1])


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    place = tmp_path / "r.html"
    assert write(_report(), str(place)) == place.stat().st_size
    before = place.read_bytes()
    with pytest.raises(TypeError):
        write_whole(str(place), "no bytes")  # type: ignore[arg-type]
    assert place.read_bytes() == before
    assert os.listdir(tmp_path) == ["r.html"]
