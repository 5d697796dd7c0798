"""Signatures of Version 4, made by botocore as every client makes them."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from api_caller import HEADERS, Caller
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from leadline.dashboard.security import Access
from leadline.errors import ConfigurationError
from leadline.serve.api_error import ApiError
from leadline.serve.app import ApiService
from leadline.serve.server import key_pairs
from leadline.serve.signature import SignedRequest, read_key_pairs, verify

PAIRS = {"AKIAEXAMPLE": "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}
BODY = b'{"TrainingJobName": "first"}'


def signed(
    secret: str = PAIRS["AKIAEXAMPLE"], access: str = "AKIAEXAMPLE", path: str = "/", body_hash: str | None = None
) -> SignedRequest:
    """Return a request as botocore sends it.

    Args:
        body_hash: The header with which the SDKs for JavaScript, Go and Java name the body.
    """
    target = {"X-Amz-Target": "SageMaker.DescribeTrainingJob", "Content-Type": HEADERS["content-type"]}
    hashed = {} if body_hash is None else {"X-Amz-Content-SHA256": body_hash}
    request = AWSRequest("POST", f"http://leadline.example:5156{path}", headers=target | hashed, data=BODY)
    SigV4Auth(Credentials(access, secret), "sagemaker", "us-east-1").add_auth(request)
    headers = {name.lower(): value for name, value in request.headers.items()} | {"host": "leadline.example:5156"}
    return SignedRequest("POST", path, headers, BODY)


def code_of(request: SignedRequest, now: datetime | None = None) -> str:
    with pytest.raises(ApiError) as caught:
        verify(request, PAIRS, now)
    assert caught.value.status == 403
    return caught.value.code


def changed(name: str, value: str) -> Callable[[SignedRequest], SignedRequest]:
    return lambda request: replace(request, headers={**request.headers, name: value})


@pytest.mark.parametrize("path", ["/", "/?b=2&a=1", "/?name=a%20b"])
def test_a_request_that_botocore_signed_is_accepted(path: str) -> None:
    verify(signed(path=path), PAIRS)


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (lambda request: replace(request, body=BODY + b" "), "InvalidSignatureException"),
        (lambda request: replace(request, method="PUT"), "InvalidSignatureException"),
        (lambda request: replace(request, path="/?a=1"), "InvalidSignatureException"),
        (changed("x-amz-target", "SageMaker.DeleteTrainingJob"), "InvalidSignatureException"),
        (changed("host", "other.example"), "InvalidSignatureException"),
        (changed("x-amz-date", "20260101T000000Z"), "InvalidSignatureException"),
        (changed("x-amz-date", "yesterday"), "IncompleteSignatureException"),
        (changed("x-amz-content-sha256", "UNSIGNED-PAYLOAD"), "IncompleteSignatureException"),
        (changed("authorization", "Bearer token"), "IncompleteSignatureException"),
        (changed("authorization", ""), "IncompleteSignatureException"),
    ],
)
def test_a_request_that_was_changed_is_refused(change: Any, code: str) -> None:
    assert code_of(change(signed())) == code


def test_a_body_that_is_named_by_its_hash_is_the_signed_one() -> None:
    request = signed(body_hash=hashlib.sha256(BODY).hexdigest())
    verify(request, PAIRS)
    assert code_of(replace(request, body=b'{"TrainingJobName": "other"}')) == "InvalidSignatureException"
    assert code_of(replace(request, body=b"")) == "InvalidSignatureException"


@pytest.mark.parametrize(
    "kind",
    [
        "UNSIGNED-PAYLOAD",
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD",
        "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER",
        "STREAMING-UNSIGNED-PAYLOAD-TRAILER",
    ],
)
def test_a_signature_without_the_body_is_refused(kind: str) -> None:
    with pytest.raises(ApiError, match="the body must be signed as a whole"):
        verify(signed(body_hash=kind), PAIRS)


@pytest.mark.parametrize("wrong", ["", "e3b0", hashlib.sha256(BODY).hexdigest().upper()])
def test_a_hash_that_is_none_of_the_body_is_refused(wrong: str) -> None:
    assert code_of(signed(body_hash=wrong)) == "InvalidSignatureException"


def test_unsigned_requests_and_other_keys_are_refused() -> None:
    request = signed()
    unsigned = {name: value for name, value in request.headers.items() if name != "authorization"}
    assert code_of(replace(request, headers=unsigned)) == "MissingAuthenticationTokenException"
    assert code_of(signed(secret="another-secret-key-of-the-same-kind")) == "InvalidSignatureException"
    assert code_of(signed(access="AKIAOTHER")) == "UnrecognizedClientException"


@pytest.mark.parametrize("name", [";x-amz-target", "content-type;"])
def test_a_signature_without_a_header_that_decides_is_refused(name: str) -> None:
    request = signed()
    without = request.headers["authorization"].replace(name, "")
    assert without != request.headers["authorization"]
    assert code_of(changed("authorization", without)(request)) == "IncompleteSignatureException"


@pytest.mark.parametrize("minutes", [-16, 16])
def test_a_signature_expires_after_a_quarter_of_an_hour(minutes: int) -> None:
    assert code_of(signed(), datetime.now(UTC) + timedelta(minutes=minutes)) == "InvalidSignatureException"
    verify(signed(), PAIRS, datetime.now(UTC) + timedelta(minutes=minutes / 2))


def test_nothing_is_done_for_a_request_without_a_signature(caller: Caller) -> None:
    service = ApiService(caller.queue, caller.topics, Access("0.0.0.0"), PAIRS)
    headers = HEADERS | {"x-amz-target": "SageMaker.ListTrainingJobs"}
    assert service.answer(SignedRequest("POST", "/", headers, b"{}")).status == 403
    request = signed()
    assert service.answer(request).status == 400  # there is no such job


def test_a_large_body_is_told_to_be_too_large(caller: Caller) -> None:
    service = ApiService(caller.queue, caller.topics, Access("0.0.0.0"), PAIRS)
    assert service.answer(replace(signed(), body=b" " * (5 << 20))).status == 413


@pytest.mark.parametrize("headers", [{"host": "evil.example"}, {"origin": "http://127.0.0.1:5156"}])
def test_pages_in_a_browser_are_refused(caller: Caller, headers: dict[str, str]) -> None:
    given = HEADERS | {"x-amz-target": "SageMaker.ListTrainingJobs"}
    assert caller.service.answer(SignedRequest("POST", "/", given, b"{}")).status == 200
    assert caller.service.answer(SignedRequest("POST", "/", given | headers, b"{}")).status == 403


def test_key_pairs_are_read_from_a_private_file_only(tmp_path: Path) -> None:
    path = tmp_path / "credentials"
    path.write_text(
        "[default]\naws_access_key_id = A\naws_secret_access_key = a-secret-of-some-length%\n"
        "[other]\naws_access_key_id = B\naws_secret_access_key = another-secret-here\n[empty]\nregion = x\n"
    )
    os.chmod(path, 0o644)
    with pytest.raises(ConfigurationError, match="other users can access the file; run: chmod 600"):
        read_key_pairs(str(path))
    os.chmod(path, 0o600)
    assert read_key_pairs(str(path)) == {"A": "a-secret-of-some-length%", "B": "another-secret-here"}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "no profile with"),
        ("nothing", "not in the format"),
        ("[a]\naws_access_key_id=A\naws_secret_access_key=short\n", "at least 16 characters"),
    ],
)
def test_unusable_key_files(tmp_path: Path, content: str, message: str) -> None:
    path = tmp_path / "credentials"
    path.write_text(content)
    os.chmod(path, 0o600)
    with pytest.raises(ConfigurationError, match=message):
        read_key_pairs(str(path))
    with pytest.raises(ConfigurationError, match="no such file"):
        read_key_pairs(f"{path}.none")


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "leadline.example", ""])
def test_other_machines_are_not_served_without_keys(host: str) -> None:
    with pytest.raises(ConfigurationError, match="only with --keys FILE"):
        key_pairs(host, None)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_this_machine_is_served_without_keys(host: str) -> None:
    assert key_pairs(host, None) is None
