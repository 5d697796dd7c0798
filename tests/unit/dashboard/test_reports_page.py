"""Reports page: lists, generates, embeds and downloads reports; refuses cross-site requests."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient
from system_scenarios import system_scenario

from leadline.dashboard.security import Access
from leadline.testing.runs import RunWriter

HTML = {"accept": "text/html"}
Open = Callable[..., TestClient]
Post = Callable[..., Any]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    RunWriter(tmp_path / "one").write_all(system_scenario(3, seconds=6)).end()
    return tmp_path


def test_a_run_without_reports_shows_how_to_generate_one(root: Path, open_dashboard: Open) -> None:
    page = open_dashboard(root).get("/runs/one/reports", headers=HTML)
    assert page.status_code == 200
    assert "No report of this run has been generated yet" in page.text
    assert "leadline report one" in page.text
    assert "<iframe" not in page.text
    assert "Boosted trees:" not in page.text  # it is no run of trees


def test_a_report_is_generated_shown_and_downloaded(root: Path, open_dashboard: Open, post_from_page: Post) -> None:
    client = open_dashboard(root)
    answer = post_from_page(client, "/runs/one/reports/profiling")
    assert (answer.status_code, answer.json()) == (200, {"address": "/runs/one/reports?show=profiling"})
    page = client.get("/runs/one/reports?show=profiling", headers=HTML).text
    assert 'src="/runs/one/reports/profiling.html"' in page
    assert 'sandbox="allow-scripts"' in page
    framed = client.get("/runs/one/reports/profiling.html")
    assert framed.content == (root / "one" / "reports" / "profiling.html").read_bytes()
    policy = framed.headers["content-security-policy"]
    assert "sandbox allow-scripts;" in policy
    assert "allow-same-origin" not in policy
    assert "default-src 'none'" in policy
    kept = client.get("/runs/one/reports/profiling.html?download=1")
    assert kept.headers["content-disposition"] == 'attachment; filename="one-profiling.html"'
    notebook = client.get("/runs/one/reports/profiling.ipynb")
    assert notebook.headers["content-disposition"] == 'attachment; filename="one-profiling.ipynb"'
    assert notebook.json()["nbformat"] == 4


def test_other_sites_cannot_generate_a_report(root: Path, open_dashboard: Open, post_from_page: Post) -> None:
    client = open_dashboard(root)
    for headers in ({}, {"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://elsewhere.example"}):
        assert client.post("/runs/one/reports/profiling", headers=headers).status_code == 403
    assert client.get("/runs/one/reports/profiling").status_code == 405
    reading = open_dashboard(root, access=Access(is_read_only=True))
    assert "hx-post=" not in reading.get("/runs/one/reports", headers=HTML).text
    assert post_from_page(reading, "/runs/one/reports/profiling").status_code == 403
    assert not (root / "one" / "reports").exists()


@pytest.mark.parametrize("product", ["nothing", "..%2f..%2fmanifest", "manifest"])
def test_unknown_reports_are_not_found(root: Path, open_dashboard: Open, post_from_page: Post, product: str) -> None:
    client = open_dashboard(root)
    assert client.get(f"/runs/one/reports/{product}.html").status_code == 404
    assert post_from_page(client, f"/runs/one/reports/{product}").status_code == 404


def test_links_outside_the_run_are_not_followed(
    root: Path, tmp_path_factory: pytest.TempPathFactory, open_dashboard: Open, post_from_page: Post
) -> None:
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "profiling.html").write_text("secret")
    os.symlink(elsewhere, root / "one" / "reports")
    client = open_dashboard(root)
    assert client.get("/runs/one/reports/profiling.html").status_code == 409
    answer = post_from_page(client, "/runs/one/reports/profiling")
    assert answer.status_code == 409
    assert "is a symbolic link" in answer.text
    assert os.listdir(elsewhere) == ["profiling.html"]
