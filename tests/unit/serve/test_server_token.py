"""The token of a server without keys, which keeps the other users of its machine out."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import pytest
from api_caller import CREATE, HEADERS, Caller
from starlette.datastructures import Headers
from starlette.testclient import TestClient
from starlette.types import Message

from leadline.dashboard.security import Access
from leadline.errors import ConfigurationError
from leadline.serve.app import ApiService, create_app
from leadline.serve.server_token import server_token
from leadline.serve.signature import SignedRequest

TOKEN = "of-the-tests-of-servers"


@pytest.mark.parametrize("path", ["/", "", f"/{TOKEN}x", f"/{TOKEN[:-1]}", f"/?{TOKEN}", f"/x/{TOKEN}", "/\u00e9"])
def test_nothing_is_done_for_a_request_without_the_token(caller: Caller, path: str) -> None:
    service = ApiService(caller.queue, caller.topics, Access(token=TOKEN))
    headers = HEADERS | {"x-amz-target": "SageMaker.CreateTrainingJob"}
    answer = service.answer(SignedRequest("POST", path, headers, json.dumps(CREATE).encode()))
    assert (answer.status, json.loads(answer.body)["__type"]) == (403, "AccessDeniedException")
    assert TOKEN not in answer.body.decode()
    assert caller.queue.jobs() == []


@pytest.mark.parametrize("path", [f"/{TOKEN}", f"/{TOKEN}/", f"/{TOKEN}?a=1"])
def test_a_request_with_the_token_is_answered(caller: Caller, path: str) -> None:
    service = ApiService(caller.queue, caller.topics, Access(token=TOKEN))
    headers = HEADERS | {"x-amz-target": "SageMaker.ListTrainingJobs"}
    assert service.answer(SignedRequest("POST", path, headers, b"{}")).status == 200
    page = headers | {"origin": "http://127.0.0.1:5156"}
    assert service.answer(SignedRequest("POST", path, page, b"{}")).status == 403


def test_a_token_is_the_path_over_http(caller: Caller) -> None:
    client = TestClient(
        create_app(ApiService(caller.queue, caller.topics, Access(token=TOKEN))), base_url="http://127.0.0.1:5156"
    )
    headers = {"content-type": HEADERS["content-type"], "x-amz-target": "SageMaker.ListTrainingJobs"}
    answers = {path: client.post(path, headers=headers, content=b"{}") for path in ("/", "/x/y", f"/{TOKEN}")}
    assert [answer.status_code for answer in answers.values()] == [403, 403, 200]
    assert "leadline serve --env" in answers["/"].json()["message"]


@pytest.mark.parametrize("keys", [None, {"AKIAEXAMPLE": "a-secret-of-some-length"}], ids=["token", "keys"])
def test_a_body_is_not_read_from_strangers(caller: Caller, keys: dict[str, str] | None) -> None:
    """Otherwise each of them could fill the memory with 4 MB."""
    app = create_app(ApiService(caller.queue, caller.topics, Access(token=None if keys else TOKEN), keys))
    sent = list[Message]()

    async def receive() -> Message:
        raise AssertionError("the body is read")

    async def send(message: Message) -> None:
        sent.append(message)

    scope = {"type": "http", "method": "POST", "path": "/", "query_string": b"", "headers": Headers(HEADERS).raw}
    asyncio.run(app(scope, receive, send))
    assert sent[0]["status"] == 403


def test_a_token_is_made_once_and_is_private(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        token = server_token(str(tmp_path / "new" / "folder"))
    finally:
        os.umask(before)
    assert len(token) >= 32
    assert server_token(str(tmp_path / "new" / "folder")) == token
    assert server_token(str(tmp_path / "other")) != token
    folder = tmp_path / "new" / "folder"
    assert [path.stat().st_mode & 0o777 for path in (folder, folder / "token")] == [0o700, 0o600]


def test_a_token_that_others_can_read_is_refused(tmp_path: Path) -> None:
    server_token(str(tmp_path))
    (tmp_path / "token").chmod(0o644)
    with pytest.raises(ConfigurationError, match=r"token: other users can read this token; delete the file"):
        server_token(str(tmp_path))


@pytest.mark.parametrize("content", [b"", b"short", b"\xff" * 40])
def test_an_unusable_token_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "token").write_bytes(content)
    (tmp_path / "token").chmod(0o600)
    with pytest.raises(ConfigurationError, match="token: "):
        server_token(str(tmp_path))
    (tmp_path / "file").touch()
    with pytest.raises(ConfigurationError, match=r"(?i)token: (not a directory|file exists)"):
        server_token(str(tmp_path / "file"))
