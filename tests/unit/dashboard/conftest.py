"""In-process dashboards and a client that behaves like a browser on this machine."""

from __future__ import annotations

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
    """Post as a dashboard page does: ``post_from_page(client, address, {…})``."""

    def post(client: TestClient, address: str, fields: dict[str, Any] | None = None) -> Any:
        return client.post(address, data=fields or {}, headers={"Origin": ADDRESS, "Sec-Fetch-Site": "same-origin"})

    return post
