"""Access control: host names, tokens, changing requests, paths."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path

import pytest
from starlette.applications import Starlette
from starlette.datastructures import Headers
from starlette.middleware import Middleware
from starlette.requests import Request
from starlette.responses import PlainTextResponse
from starlette.routing import Route
from starlette.testclient import TestClient
from starlette.types import Message

from leadline.dashboard.page import RUN_PAGES
from leadline.dashboard.security import (
    MAX_BODY_BYTES,
    POLICY,
    Access,
    AccessMiddleware,
    is_known_host,
    is_loopback,
    make_access,
)
from leadline.errors import ConfigurationError
from leadline.testing.runs import Capture, RunWriter

ADDRESS = "http://127.0.0.1:8321"
TOKEN = "correct-horse-battery"
OWN_PAGE = {"Origin": ADDRESS, "Sec-Fetch-Site": "same-origin"}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    RunWriter(str(tmp_path / "runs" / "first")).write_all([Capture(0, {"loss": {"value": 1.0}})]).end()
    return tmp_path / "runs"


class Counter:
    """Application with a changing request behind the access middleware."""

    def __init__(self, access: Access) -> None:
        self.changes: list[bytes] = []
        app = Starlette(
            routes=[Route("/change", self._change, methods=["POST", "GET"])],
            middleware=[Middleware(AccessMiddleware, access=access)],
        )
        self.client = TestClient(app, base_url=ADDRESS, follow_redirects=False)

    async def _change(self, request: Request) -> PlainTextResponse:
        if request.method == "POST":
            self.changes.append(await request.body())
        return PlainTextResponse("done")


def test_a_dashboard_page_may_change_things() -> None:
    counter = Counter(Access())
    for headers in (OWN_PAGE, {"Origin": ADDRESS}, {"Sec-Fetch-Site": "same-origin"}):
        assert counter.client.post("/change", data={"a": "1"}, headers=headers).status_code == 200
    assert counter.changes == [b"a=1"] * 3


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"Origin": ""}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "none"}, 403),
        ({"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}, 403),
        ({**OWN_PAGE, "Origin": "http://evil.example"}, 403),
        ({**OWN_PAGE, "Origin": "http://127.0.0.1:9999"}, 403),
        ({**OWN_PAGE, "Origin": "null"}, 403),
        ({**OWN_PAGE, "Sec-Fetch-Site": "cross-site"}, 403),
        ({**OWN_PAGE, "Sec-Fetch-Site": "same-site"}, 403),
        ({**OWN_PAGE, "Host": "evil.example"}, 421),
        ({**OWN_PAGE, "Host": "evil.example:8321", "Origin": "http://evil.example:8321"}, 421),
        ({**OWN_PAGE, "Host": ""}, 421),
    ],
)
def test_a_cross_site_request_changes_nothing(headers: dict[str, str], status: int) -> None:
    counter = Counter(Access())
    answer = counter.client.post("/change", data={"a": "1"}, headers=headers)
    assert (answer.status_code, counter.changes) == (status, [])


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE"])
def test_only_get_and_post_are_served(method: str) -> None:
    counter = Counter(Access())
    assert counter.client.request(method, "/change", headers=OWN_PAGE).status_code == 405


def test_a_large_body_is_refused_before_it_is_read() -> None:
    counter = Counter(Access())
    assert counter.client.post("/change", content=b"a" * (MAX_BODY_BYTES + 1), headers=OWN_PAGE).status_code == 413
    assert counter.client.post("/change", content=b"a" * MAX_BODY_BYTES, headers=OWN_PAGE).status_code == 200
    assert len(counter.changes) == 1


@pytest.mark.parametrize(("excess", "status"), [(0, 200), (1, 413)])
def test_a_body_of_unknown_length_is_limited_as_a_whole(excess: int, status: int) -> None:
    """The test client would join the parts into one message."""
    counter, sent = Counter(Access()), list[Message]()
    sizes = [1024] * (MAX_BODY_BYTES // 1024) + [excess]
    waiting = [{"type": "http.request", "body": b"a" * size, "more_body": True} for size in sizes]
    waiting[-1]["more_body"] = False

    async def receive() -> Message:
        return waiting.pop(0)

    async def send(message: Message) -> None:
        sent.append(message)

    headers = Headers({"Host": "127.0.0.1:8321", **OWN_PAGE}).raw
    scope = {"type": "http", "method": "POST", "path": "/change", "query_string": b"", "headers": headers}
    asyncio.run(counter.client.app(scope, receive, send))
    assert sent[0]["status"] == status
    assert [len(change) for change in counter.changes] == ([] if excess else [MAX_BODY_BYTES])


def test_read_only_refuses_every_change() -> None:
    counter = Counter(Access(is_read_only=True))
    answer = counter.client.post("/change", data={"a": "1"}, headers=OWN_PAGE)
    assert (answer.status_code, counter.changes) == (403, [])
    assert "read-only" in answer.text
    assert counter.client.get("/change").status_code == 200


def test_foreign_pages_cannot_embed_or_fetch_but_may_link() -> None:
    client = Counter(Access()).client
    assert (
        client.get("/change", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}).status_code == 403
    )
    assert client.get("/change", headers={"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}).status_code == 403
    assert client.get("/change", headers={"Origin": "http://evil.example"}).status_code == 403
    assert (
        client.get("/change", headers={"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "navigate"}).status_code == 200
    )


@pytest.mark.parametrize(
    ("host", "listened", "is_taken"),
    [
        ("127.0.0.1:8321", "127.0.0.1", True),
        ("localhost", "127.0.0.1", True),
        ("[::1]:8321", "127.0.0.1", True),
        ("LOCALHOST:1", "127.0.0.1", True),
        ("rebound.example", "127.0.0.1", False),
        ("localhost.evil.example", "127.0.0.1", False),
        ("127.0.0.1@evil.example", "127.0.0.1", False),
        ("evil.example/127.0.0.1", "127.0.0.1", False),
        ("10.0.0.7", "127.0.0.1", False),
        ("[::1", "127.0.0.1", False),
        ("10.0.0.7:8321", "10.0.0.7", True),
        ("node7:8321", "node7", True),
        ("10.0.0.7", "0.0.0.0", True),
        ("[fe80::1]", "::", True),
        ("gpu-box", "0.0.0.0", True),
        ("rebound.example", "0.0.0.0", False),
    ],
)
def test_the_dashboard_is_known_under_its_own_names_only(host: str, listened: str, is_taken: bool) -> None:
    assert is_known_host(host, Access(listened, names=frozenset({"gpu-box"}))) is is_taken


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1", "0.0.0.0", "node7"])
def test_a_token_is_required_on_every_address(host: str) -> None:
    """Also on loopback: every user of the machine can connect to it."""
    made = make_access(host).token
    assert made is not None
    assert len(made) >= 32
    assert make_access(host, token="").token not in (made, "", None)
    assert make_access(host, token=TOKEN).token == TOKEN
    with pytest.raises(ConfigurationError, match="16 characters"):
        make_access(host, token="short")


def test_only_this_machine_is_served_without_a_token() -> None:
    for host in ("127.0.0.1", "localhost", "::1", "127.8.8.8"):
        assert make_access(host, needs_token=False).token is None
    for host in ("0.0.0.0", "::", "node7", "10.0.0.7", ""):
        with pytest.raises(ConfigurationError, match="other machines can connect"):
            make_access(host, needs_token=False)
    with pytest.raises(ConfigurationError, match=r"--no-token contradicts \$LEADLINE_TOKEN; unset"):
        make_access("127.0.0.1", token=TOKEN, needs_token=False)
    assert make_access("127.0.0.1", token="", needs_token=False).token is None
    assert not is_loopback("0.0.0.0")


def test_without_the_token_nothing_is_served(root: Path, open_dashboard: Callable[..., TestClient]) -> None:
    client = open_dashboard(root, access=Access(token=TOKEN))
    for path in ("/", "/runs/first", "/runs/first/live", "/live", "/plotly.js", "/static/style.css", "/nowhere"):
        assert client.get(path).status_code == 401, path
        assert client.get(path, params={"token": "wrong"}).status_code == 401, path
        assert client.get(path, headers={"Authorization": "Bearer wrong"}).status_code == 401, path
    assert client.post("/", headers=OWN_PAGE).status_code == 401
    assert client.get("/", headers={"Authorization": TOKEN}).status_code == 401
    assert client.get("/", headers={"Authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_another_user_of_the_machine_neither_stops_nor_deletes_runs(
    root: Path, open_dashboard: Callable[..., TestClient]
) -> None:
    """Programs can claim to be a page of the dashboard: these headers are no secret."""
    client = open_dashboard(root, access=make_access("127.0.0.1"))
    posts = {"/runs/first/delete": {"name": "first"}, "/runs/first/controls/stop": {}, "/runs/first/notes": {}}
    for path, fields in posts.items():
        assert client.post(path, data=fields, headers={"Sec-Fetch-Site": "same-origin"}).status_code == 401, path
    assert (root / "first" / "manifest.json").exists()


def test_a_program_with_the_token_may_change_things() -> None:
    counter = Counter(Access(token=TOKEN))
    bearer = {"Authorization": f"bearer {TOKEN}"}
    assert counter.client.post("/change", data={"a": "1"}, headers=bearer).status_code == 200
    for headers in ({"Sec-Fetch-Site": "cross-site"}, {"Origin": "http://evil.example"}, {"Host": "evil.example"}):
        assert counter.client.post("/change", data={"a": "1"}, headers=bearer | headers).status_code in (403, 421)
    wrong = {"Authorization": f"Bearer {TOKEN}x"}
    assert counter.client.post("/change", data={"a": "1"}, headers=wrong).status_code == 403
    assert counter.changes == [b"a=1"]


def test_who_opens_a_page_without_the_token_can_give_it(root: Path, open_dashboard: Callable[..., TestClient]) -> None:
    client = open_dashboard(root, access=Access(token=TOKEN))
    answer = client.get("/", params={"q": 'a"><script>', "token": "wrong"}, headers={"accept": "text/html"})
    assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert re.findall(r'name="(\w+)"', answer.text) == ["q", "token"]
    assert 'value="a&quot;&gt;&lt;script&gt;"' in answer.text
    assert "first" not in answer.text.replace("autofocus", "")
    parts = {"accept": "text/html", "hx-request": "true"}
    assert client.get("/", headers=parts).text == (
        "the token is missing or wrong; open the link that leadline ui printed, or give the token\n"
    )


def test_the_token_becomes_a_cookie_and_leaves_the_address(
    root: Path, open_dashboard: Callable[..., TestClient]
) -> None:
    client = open_dashboard(root, access=Access(token=TOKEN))
    answer = client.get("/runs/first/tensors", params={"token": TOKEN, "name": 'a&b"><script>'})
    assert TOKEN not in answer.text
    assert TOKEN not in str(answer.headers)
    assert "<script" not in answer.text
    assert "url=/runs/first/tensors?name=a%26b%22%3E%3Cscript%3E" in answer.text
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=strict" in cookie
    assert client.get("/runs/first/tensors").status_code == 200


def test_a_link_with_the_token_leads_to_no_other_site(root: Path, open_dashboard: Callable[..., TestClient]) -> None:
    client = open_dashboard(root, access=Access(token=TOKEN))
    answer = client.get(f"{ADDRESS}//evil.example/?token={TOKEN}")
    assert "url=/evil.example/" in answer.text
    assert "//evil.example" not in answer.text


def test_every_response_has_a_content_security_policy(root: Path, open_dashboard: Callable[..., TestClient]) -> None:
    client = open_dashboard(root)
    pages = ["/", "/nowhere", "/static/theme.js", "/runs/no", *(f"/runs/first/{each}" for each in RUN_PAGES)]
    for path in pages:
        headers = client.get(path, headers={"accept": "text/html"}).headers
        assert headers["content-security-policy"] == POLICY
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert ("no-store" in headers["cache-control"]) is not path.startswith("/static/"), path
    assert "unsafe-eval" not in POLICY
    assert "script-src 'self';" in POLICY


def test_pages_have_no_script_of_their_own(root: Path, open_dashboard: Callable[..., TestClient]) -> None:
    client = open_dashboard(root)
    for path in ("/", *(f"/runs/first/{each}" for each in RUN_PAGES)):
        text = client.get(path, headers={"accept": "text/html"}).text
        for part in text.split("<script")[1:]:
            head, _, body = part.partition(">")
            assert "src=" in head or 'type="application/json"' in head, path
            assert "src=" not in head or not body.partition("</script>")[0].strip(), path
        assert " onclick=" not in text


@pytest.mark.parametrize(
    "name",
    [
        "..%2f",
        "..%2foutside",
        "%2e%2e",
        "%2e%2e%2foutside",
        "..%5coutside",
        "first%2f..%2f..%2foutside",
        "first%00",
        "outside",
        "link",
        "%2fetc",
        "x" * 5000,
        "%ff%fe",
    ],
)
def test_no_path_leads_out_of_the_root(root: Path, open_dashboard: Callable[..., TestClient], name: str) -> None:
    RunWriter(str(root.parent / "outside")).write_all([Capture(0, {"loss": {"value": 1.0}})]).end()
    os.symlink(root.parent / "outside", root / "link")
    client = open_dashboard(root)
    for page in ("", "/overview", "/tensors", "/live", "/charts/scalar.json"):
        answer = client.get(f"/runs/{name}{page}", headers={"accept": "text/html"})
        assert answer.status_code == 404, (page, answer.status_code)
        assert "outside</" not in answer.text
    assert "link" not in client.get("/", headers={"accept": "text/html"}).text.partition("<main")[2]


@pytest.mark.parametrize("part", ["dashboard/static/vendor", "reports/vendor"])
def test_vendored_scripts_are_as_published(part: str) -> None:
    folder = files("leadline").joinpath(*part.split("/"))
    scripts = {entry.name for entry in folder.iterdir() if entry.name.endswith(".js")}
    rows = [line.split("|") for line in (folder / "README.md").read_text().splitlines() if ".js |" in line]
    assert {row[1].strip() for row in rows} == scripts
    for _, name, package, licence, checksum, _ in rows:
        assert re.search(r" \d+\.\d+\.\d+,", package)
        assert hashlib.sha256((folder / name.strip()).read_bytes()).hexdigest() == checksum.strip()
        assert (folder / licence.split()[0]).read_text()


def test_no_file_outside_of_static_is_served(root: Path, open_dashboard: Callable[..., TestClient]) -> None:
    client = open_dashboard(root)
    for path in (
        "/static/..%2fapp.py",
        "/static/%2e%2e/app.py",
        "/static/../app.py",
        "/static/%2fetc%2fpasswd",
        "/static/",
    ):
        assert client.get(path).status_code == 404, path


def test_a_long_url_is_refused(root: Path, open_dashboard: Callable[..., TestClient]) -> None:
    assert open_dashboard(root).get("/?q=" + "x" * 40_000).status_code == 414
