"""The application: signatures, decoding of requests, and the table of operations."""

from __future__ import annotations

import hmac
import logging
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Final

from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from leadline.dashboard.security import Access, is_known_host
from leadline.records.json_object import JsonObject
from leadline.serve.answer import Answer
from leadline.serve.api_error import ApiError
from leadline.serve.identity_operations import IdentityOperations
from leadline.serve.job_queue import JobQueue
from leadline.serve.log_operations import LogOperations
from leadline.serve.processing_operations import ProcessingOperations
from leadline.serve.signature import Signature, SignedRequest, read_claim, verify
from leadline.serve.topic_operations import TopicOperations
from leadline.serve.topics import Topics
from leadline.serve.training_operations import TrainingOperations
from leadline.serve.used_signatures import UsedSignatures
from leadline.serve.wire import JSON, HttpAnswer, decode, encode, encode_error, new_request_id, unknown_operation

logger: Final = logging.getLogger(__name__)
_MAX_BODY_BYTES: Final = 4 << 20
_POLL_SECONDS: Final = 0.5
_READS: Final = ("Describe", "Get", "List", "Simulate")
"""How the names of operations begin that change nothing."""
_NO_TOKEN: Final = (
    "the address lacks the token of this server; "
    'run in the shell of the client, with the options of the server: eval "$(leadline serve --env)"'
)
_Operation = Callable[[JsonObject], Answer | None]


class ApiService:
    """Answers requests, one at a time.

    Args:
        queue: The jobs.
        topics: Where rules and clients publish messages.
        key_pairs: Secret keys by access key, of which one must have signed each request; None: no signature is
            needed, and only requests for ``access`` are answered.
        access: The address of the server, and the token that is the path of each request without keys.
    """

    def __init__(
        self, queue: JobQueue, topics: Topics, access: Access, key_pairs: Mapping[str, str] | None = None
    ) -> None:
        self.queue = queue
        self.lock = threading.Lock()
        """Held while the jobs are read or changed."""
        self._access, self._key_pairs = access, key_pairs
        self._operations = _operations(queue, topics)
        self._used = UsedSignatures(time.time())

    @property
    def has_token(self) -> bool:
        """Whether the path of each request must be the token."""
        return self._access.token is not None

    def refuse(self, head: SignedRequest) -> HttpAnswer | None:
        """Return why a request is refused whatever its body is, which is then not read."""
        try:
            self._check_sender(head)
        except ApiError as error:
            return encode_error(head.headers, error)
        return None

    def answer(self, request: SignedRequest) -> HttpAnswer:
        """Return the answer to a request, or why it is refused."""
        try:
            self._check_sender(request)
            if len(request.body) > _MAX_BODY_BYTES:
                raise ApiError("RequestEntityTooLarge", f"the body exceeds {_MAX_BODY_BYTES:,} bytes", 413)
            signature = None if self._key_pairs is None else verify(request, self._key_pairs)
            call = decode(request.headers, request.body)
            operation = self._operations.get(call.operation.name)
            if operation is None:
                raise unknown_operation(call.operation.name)
            with self.lock, self._used_once(signature, call.operation.name):
                return encode(call, operation(call.request))
        except ApiError as error:
            return encode_error(request.headers, error)
        except (OSError, sqlite3.Error) as error:  # such as a full disk
            logger.warning("a request failed: %s", error)
            return encode_error(request.headers, ApiError("InternalFailure", str(error), 500))

    def follow(self, has_ended: threading.Event) -> None:
        """Follow the jobs until an event; what fails, such as a write to a full disk, is repeated."""
        while not has_ended.wait(_POLL_SECONDS):
            try:
                with self.lock:
                    self.queue.advance()
            except (OSError, sqlite3.Error) as error:
                logger.warning("the state of the jobs could not be recorded: %s", error)

    def _check_sender(self, request: SignedRequest) -> None:
        """Check who sends a request, except its signature.

        Without keys, other users of this machine do not know the token, and pages in a browser are refused: those of
        other names that lead to this address by their ``Host``, others by their ``Origin``.

        Raises:
            ApiError: It is not allowed.
        """
        if self._key_pairs is not None:
            read_claim(request, self._key_pairs)
            return
        if not is_known_host(request.headers.get("host", ""), self._access) or "origin" in request.headers:
            raise ApiError("AccessDeniedException", "only clients on this machine are served, not pages", 403)
        token, given = self._access.token, request.path.partition("?")[0].strip("/")
        if token is not None and not hmac.compare_digest(given.encode(), token.encode()):
            raise ApiError("AccessDeniedException", _NO_TOKEN, 403)

    @contextmanager
    def _used_once(self, signature: Signature | None, operation: str) -> Iterator[None]:
        """Perform an operation, unless a request with the same signature has done so."""
        if signature is None:
            yield
            return
        self._used.use(signature, time.time(), is_repeatable=operation.startswith(_READS))
        try:
            yield
        except (OSError, sqlite3.Error):  # clients try again what was answered with a failure of the server
            self._used.make_repeatable(signature)
            raise


def _operations(queue: JobQueue, topics: Topics) -> dict[str, _Operation]:
    training, processing = TrainingOperations(queue, topics), ProcessingOperations(queue)
    logs, identity, messages = LogOperations(queue), IdentityOperations(queue.settings), TopicOperations(topics)
    return {
        "CreateTrainingJob": training.create,
        "DescribeTrainingJob": training.describe,
        "ListTrainingJobs": training.list_,
        "UpdateTrainingJob": training.update,
        "StopTrainingJob": training.stop,
        "DeleteTrainingJob": training.delete,
        "AddTags": training.add_tags,
        "ListTags": training.list_tags,
        "DescribeProcessingJob": processing.describe,
        "ListProcessingJobs": processing.list_,
        "StopProcessingJob": processing.stop,
        "DescribeLogStreams": logs.describe_streams,
        "GetLogEvents": logs.get_events,
        "GetCallerIdentity": identity.get_caller_identity,
        "GetRole": identity.get_role,
        "SimulatePrincipalPolicy": identity.simulate_principal_policy,
        "CreateTopic": messages.create,
        "ListTopics": messages.list_,
        "DeleteTopic": messages.delete,
        "Subscribe": messages.subscribe,
        "Unsubscribe": messages.unsubscribe,
        "ListSubscriptions": messages.list_subscriptions,
        "ListSubscriptionsByTopic": messages.list_subscriptions_by_topic,
        "Publish": messages.publish,
    }


def create_app(service: ApiService) -> Starlette:
    """Return the application of a service: all operations have the same path, which is ``/`` or the token."""

    async def serve(request: Request) -> Response:
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        headers = {name.lower(): value for name, value in request.headers.items()}
        head = SignedRequest(request.method, path, headers, b"")
        answer = service.refuse(head) or await answer_body(request, head)
        identity = {"x-amzn-requestid": new_request_id()}
        return Response(answer.body, answer.status, identity, answer.media_type)

    async def answer_body(request: Request, head: SignedRequest) -> HttpAnswer:
        body = bytearray()
        try:
            async for chunk in request.stream():
                body += chunk
                if len(body) > _MAX_BODY_BYTES:
                    break
        except ClientDisconnect:
            return HttpAnswer(400, JSON, b"")  # to nobody
        answer: HttpAnswer = await run_in_threadpool(service.answer, replace(head, body=bytes(body)))
        return answer

    path = "/{token:path}" if service.has_token else "/"
    return Starlette(routes=[Route(path, serve, methods=["POST"])])
