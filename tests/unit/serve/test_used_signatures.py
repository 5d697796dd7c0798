"""A signed request is performed once: what somebody has read on its way is of no use to them."""

from __future__ import annotations

import json
import sqlite3
import time
from typing import Any

import pytest
from api_caller import CREATE, HEADERS, Caller
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from leadline.dashboard.security import Access
from leadline.serve.api_error import ApiError
from leadline.serve.app import ApiService
from leadline.serve.signature import Signature, SignedRequest
from leadline.serve.used_signatures import UsedSignatures

KEY, SECRET = "AKIAEXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
NOW = 1_000_000.5
REPLAYED = "the signature was used before"


def signed(operation: str, **members: Any) -> SignedRequest:
    body = json.dumps(members).encode()
    headers = {"X-Amz-Target": f"SageMaker.{operation}", "Content-Type": HEADERS["content-type"]}
    request = AWSRequest("POST", "http://127.0.0.1:5156/", headers=headers, data=body)
    SigV4Auth(Credentials(KEY, SECRET), "sagemaker", "us-east-1").add_auth(request)
    given = {name.lower(): value for name, value in request.headers.items()} | {"host": "127.0.0.1:5156"}
    return SignedRequest("POST", "/", given, body)


@pytest.fixture
def service(caller: Caller) -> ApiService:
    return ApiService(caller.queue, caller.topics, Access("0.0.0.0"), {KEY: SECRET})


def refusal(service: ApiService, request: SignedRequest) -> str:
    answer = service.answer(request)
    assert answer.status == 403, answer
    return str(json.loads(answer.body)["message"])


def test_a_change_is_made_once_for_a_signature(service: ApiService) -> None:
    create, stop = signed("CreateTrainingJob", **CREATE), signed("StopTrainingJob", TrainingJobName="first")
    delete = signed("DeleteTrainingJob", TrainingJobName="first")
    for request in (create, stop, delete):
        assert service.answer(request).status == 200
    for request in (create, stop, delete):
        assert REPLAYED in refusal(service, request)
    assert service.queue.jobs() == []


def test_a_refused_change_is_not_made_later(service: ApiService) -> None:
    stop = signed("StopTrainingJob", TrainingJobName="first")
    assert service.answer(stop).status == 400  # there is no such job yet
    assert service.answer(signed("CreateTrainingJob", **CREATE)).status == 200
    assert REPLAYED in refusal(service, stop)
    assert not service.queue.jobs()[0].has_ended


def test_a_client_may_ask_the_same_twice_in_a_second(service: ApiService, monkeypatch: pytest.MonkeyPatch) -> None:
    """botocore signs no header that differs: its two requests have one signature."""
    request = signed("ListTrainingJobs")
    assert service.answer(request).status == 200
    assert service.answer(request).status == 200
    now = time.time()
    monkeypatch.setattr("leadline.serve.app.time.time", lambda: now + 60)
    assert REPLAYED in refusal(service, request)


def test_what_failed_in_the_server_may_be_repeated(service: ApiService, monkeypatch: pytest.MonkeyPatch) -> None:
    """SDKs repeat a request that was answered with 500, possibly within the second of its signature."""
    create = signed("CreateTrainingJob", **CREATE)
    with monkeypatch.context() as patch:

        def full(job: object, manifest: object) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        patch.setattr(service.queue, "add", full)
        assert service.answer(create).status == 500
    assert service.answer(create).status == 200
    assert len(service.queue.jobs()) == 1


def test_a_request_to_an_earlier_server_is_refused(caller: Caller, monkeypatch: pytest.MonkeyPatch) -> None:
    create = signed("CreateTrainingJob", **CREATE)
    now = time.time()
    monkeypatch.setattr("leadline.serve.app.time.time", lambda: now + 2)
    restarted = ApiService(caller.queue, caller.topics, Access("0.0.0.0"), {KEY: SECRET})
    assert "signed before this server started; sign it again" in refusal(restarted, create)


def test_signatures_are_remembered_until_they_expire() -> None:
    """As long as they are accepted: also those of a client whose clock is ahead."""
    used, ahead = UsedSignatures(NOW, capacity=1), Signature("a", NOW + 600)
    used.use(ahead, NOW, is_repeatable=False)
    for later in (1, 600, 1499):
        with pytest.raises(ApiError, match=REPLAYED):
            used.use(ahead, NOW + later, is_repeatable=False)
        with pytest.raises(ApiError, match="more than 1 requests") as caught:
            used.use(Signature("b", NOW + later), NOW + later, is_repeatable=False)
        assert (caught.value.code, caught.value.status) == ("ThrottlingException", 400)
    used.use(Signature("b", NOW + 1501), NOW + 1501, is_repeatable=False)


def test_the_second_of_the_start_is_not_before_it() -> None:
    used = UsedSignatures(NOW)
    used.use(Signature("a", int(NOW)), NOW, is_repeatable=False)
    with pytest.raises(ApiError, match="before this server started"):
        used.use(Signature("b", int(NOW) - 1), NOW, is_repeatable=False)
