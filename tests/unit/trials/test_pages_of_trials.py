"""The dashboard shows trials, also tensors of texts."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from starlette.testclient import TestClient

import leadline
from leadline.cli.ui import root_and_path
from leadline.dashboard.app import create_app

LINK = re.compile(r'href="(/runs/[^"#]+)"')


@pytest.mark.parametrize("name", ["xg1", "pt1", "prof"])
def test_pages_of_a_trial(copy_of: Callable[[str], Path], name: str) -> None:
    trial = copy_of(name)
    root, path, _ = root_and_path(str(trial))
    client = TestClient(create_app(root), base_url="http://127.0.0.1:8321")
    links = {link.replace("&amp;", "&") for link in LINK.findall(client.get(path).text)}
    assert len(links) > 5
    for link in links:
        assert client.get(link).status_code == 200, link
    for tensor in leadline.open_run(trial).tensor_names():
        page = client.get(f"/runs/{name}/tensors", params={"name": tensor})
        assert page.status_code == 200, tensor
        assert tensor != "trees/Feature" or "Leaf" in page.text
        for chart in ("tensor", "histogram", "value", "tensor_image"):
            answer = client.get(f"/runs/{name}/charts/{chart}.json", params={"name": tensor, "step": 0})
            assert answer.status_code == 200, (tensor, chart)


def test_texts_are_not_downloaded(copy_of: Callable[[str], Path]) -> None:
    root, _, _ = root_and_path(str(copy_of("xg1")))
    client = TestClient(create_app(root), base_url="http://127.0.0.1:8321")
    answer = client.get("/runs/xg1/tensors.npy", params={"name": "trees/ID", "step": 0})
    assert answer.status_code == 409
    assert "the elements are texts" in answer.text
