"""In-process dashboards and a client that behaves like a browser on this machine."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from leadline.dashboard.app import create_app
from leadline.dashboard.security import Access

ADDRESS = "http://127.0.0.1:8321"


@pytest.fixture
def open_dashboard() -> Iterator[Callable[..., TestClient]]:
    """Open the dashboard of a runs directory: ``open_dashboard(root, access=…)``."""
    clients: list[TestClient] = []

    def open_it(root: Path | str, access: Access | None = None, **options: Any) -> TestClient:
        client = TestClient(create_app(str(root), access=access), base_url=ADDRESS, follow_redirects=False, **options)
        clients.append(client)
        return client

    yield open_it
    for each in clients:
        each.close()


@pytest.fixture
def post_from_page() -> Callable[..., Any]:
    """Post with the CSRF token of a dashboard page: ``post_from_page(client, address, {…})``."""

    def post(client: TestClient, address: str, fields: dict[str, Any] | None = None) -> Any:
        found = re.search(r'name="csrf" content="([^"]+)"', client.get("/", headers={"accept": "text/html"}).text)
        assert found
        headers = {"X-Leadline-Token": found[1], "Origin": ADDRESS, "Sec-Fetch-Site": "same-origin"}
        return client.post(address, data=fields or {}, headers=headers)

    return post
