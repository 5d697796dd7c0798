"""A report as one file: complete, without network access, with all texts of the run escaped."""

from __future__ import annotations

import json
import os
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import plotly.graph_objects as go
import pytest

from leadline.reports.files import render, write, write_whole
from leadline.reports.section import Chapter, Chart, Column, Report, Section, Table, empty

MALICIOUS = "<script>alert(1)</script>"


class Outline(HTMLParser):
    """The elements, ids and texts of a page, as parsed by a browser."""

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
        (f"text of {name}",),
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


def test_all_sections_are_linked_in_the_contents() -> None:
    page = Outline(render(_report()))
    assert page.ids == ["first", "first-one", "first-one-inner", "first-two"]
    assert {link[1:] for link in page.links} == set(page.ids)
    for text in ("One fine", "text of fine", "no fine", "Inner fine", "and 3 more", "1.5", "ms", "Report of fine"):
        assert text in " ".join(page.text)


def test_nothing_is_loaded() -> None:
    page = render(_report())
    assert Outline(page).fetched == []
    assert [script for script in Outline(page).scripts if script.get("type") is None] != []
    assert "default-src 'none'" in unescape(page)


def test_plotly_is_included_once_and_only_with_charts() -> None:
    with_charts, without = render(_report()), render(Report("x", "X", (Chapter("c", "C", ()),)))
    assert with_charts.count("plotly.js (cartesian - minified) v") == 1
    assert len(without) < 20_000


@pytest.mark.parametrize(
    "name",
    [
        MALICIOUS,
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
def test_names_of_a_run_are_escaped(name: str) -> None:
    harmless, page = Outline(render(_report())), Outline(render(_report(name)))
    assert page.ids == harmless.ids
    assert len(page.scripts) == len(harmless.scripts)
    assert page.fetched == []
    assert [json.loads(data)["data"][0]["name"] for data in page.data] == [name, name]
    assert any(f"text of {name}" in text or len(name) > 1000 for text in page.text)
    assert all(len(text) <= 4000 for text in page.text)


def test_the_policy_contains_the_hashes_of_the_scripts() -> None:
    import base64
    import hashlib

    page = render(_report())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)
    assert policy is not None
    scripts = re.findall(r"<script>(.*?)</script>", page, re.DOTALL)
    assert len(scripts) == 2
    for script in scripts:
        assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in unescape(policy[1])


def test_a_file_is_written_completely_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    assert write(_report(), str(path)) == path.stat().st_size
    before = path.read_bytes()
    with pytest.raises(TypeError):
        write_whole(str(path), "no bytes")  # type: ignore[arg-type]
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == ["r.html"]


def test_empty_sections_are_one_with_a_line_for_each_reason() -> None:
    missing = [empty(key, key.upper(), "labels were not captured" if key < "c" else "no GPU") for key in "abc"]
    kept = Section("kept", "Kept", ("text",))
    page = Outline(render(Report("x", "X", (Chapter("c", "C", (missing[0], kept, *missing[1:])),))))
    assert page.ids == ["c", "c-kept", "c-not-available"]
    text = " ".join(page.text)
    assert "A, B: labels were not captured" in text
    assert "C: no GPU" in text
