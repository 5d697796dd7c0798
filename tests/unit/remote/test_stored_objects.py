"""What failures of a store mean, in one line and without addresses or credentials."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest
from obstore.exceptions import GenericError, PermissionDeniedError
from obstore.store import MemoryStore

from leadline.errors import MissingExtraError
from leadline.remote import object_store
from leadline.remote.object_store import ObjectExistsError, ObjectMissingError, ObjectStore, StoreError

URI = "s3://bucket/runs"
SIGNATURE = "X-Amz-Signature=0123456789"


def refused(status: str, code: str) -> str:
    return (
        f"Error performing PUT https://host/bucket/x?{SIGNATURE} in 3ms - "
        f"Server returned non-2xx status code: {status}: <Error><Code>{code}</Code><Message>…</Message></Error>"
    )


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (GenericError(refused("404 Not Found", "NoSuchBucket")), "no such bucket; create it, or correct the URI"),
        (PermissionDeniedError(refused("403 Forbidden", "AccessDenied")), "access denied (AccessDenied); check the"),
        (GenericError(refused("403 Forbidden", "SignatureDoesNotMatch")), "access denied (SignatureDoesNotMatch)"),
        (GenericError("HTTP error: error sending request"), "the store cannot be reached; check the network"),
        (GenericError("PUT http://169.254.169.254/latest/api/token"), "no credentials found; set AWS_ACCESS_KEY_ID"),
        (GenericError(refused("507 Insufficient Storage", "QuotaExceeded")), "refused the request (QuotaExceeded)"),
        (GenericError(f"something new {SIGNATURE}"), "the store refused the request (Generic)"),
    ],
)
def test_an_error_says_what_to_do(error: Exception, expected: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise error

    monkeypatch.setattr("obstore.put", fail)
    with pytest.raises(StoreError) as caught:
        ObjectStore(URI, MemoryStore()).put("x", b"1")
    text = str(caught.value)
    assert text.startswith(f"{URI}: ")
    assert expected in text
    assert SIGNATURE not in text
    assert "\n" not in text


def test_objects_are_written_listed_read_and_created_once() -> None:
    store = ObjectStore(URI, MemoryStore())
    store.put("a/1", b"0123456789", create=True)
    with pytest.raises(ObjectExistsError):
        store.put("a/1", b"other", create=True)
    assert store.get("a/1") == b"0123456789"
    assert store.get("a/1", 2, 5) == b"234"
    store.put("b", b"")
    assert {stored.name: stored.nbytes for stored in store.objects()} == {"a/1": 10, "b": 0}
    assert store.folder()[0] == ["a"]
    assert [stored.name for stored in store.folder("a")[1]] == ["a/1"]
    store.delete(["a/1"])
    with pytest.raises(ObjectMissingError):
        store.get("a/1")


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_store, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"object stores need obstore; .*'leadline\[remote\]'"):
        ObjectStore(URI)


def test_local_runs_do_not_import_obstore() -> None:
    code = "import sys, leadline.cli.show, leadline.cli.run, leadline.reader.run; sys.exit('obstore' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
