"""A server's parts without its socket: no job is started, because there is no slot."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_caller import Caller, server_settings

from leadline.dashboard.security import Access
from leadline.serve.app import ApiService
from leadline.serve.job_queue import JobQueue
from leadline.serve.state_file import StateFile
from leadline.serve.topics import Topics


@pytest.fixture
def caller(tmp_path: Path) -> Iterator[Caller]:
    state = StateFile(str(tmp_path / "state.sqlite"))
    queue = JobQueue(state, server_settings(tmp_path))
    topics = Topics(queue.settings, {})
    yield Caller(ApiService(queue, topics, Access()), queue, topics)
    topics.close()
    state.close()
