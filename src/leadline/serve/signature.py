"""Key pairs of clients, and verification of the signatures of requests (AWS Signature Version 4)."""

from __future__ import annotations

import configparser
import hashlib
import hmac
import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from botocore.auth import SIGV4_TIMESTAMP, SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from leadline.errors import ConfigurationError
from leadline.serve.api_error import ApiError

_MAX_SKEW_SECONDS: Final = 15 * 60
_AUTHORIZATION: Final = re.compile(
    r"AWS4-HMAC-SHA256 Credential=([^/\s,]+)/(\d{8})/([^/\s,]+)/([^/\s,]+)/aws4_request,\s*"
    r"SignedHeaders=([a-z0-9;-]+),\s*Signature=([0-9a-f]{64})"
)
_ALWAYS_SIGNED: Final = frozenset({"host", "x-amz-date"})
_SIGNED_IF_GIVEN: Final = "content-type"
"""Decides how the body is read; so do headers of AWS, whose names begin with ``x-amz-``."""
_BODY_HASH: Final = "x-amz-content-sha256"
_MIN_SECRET_CHARACTERS: Final = 16
_REFUSED: Final = 403


@dataclass(frozen=True, slots=True)
class SignedRequest:
    """The parts of a request that its signature covers."""

    method: str
    path: str
    """With the query, as sent."""
    headers: Mapping[str, str]
    """By lower-case name."""
    body: bytes


@dataclass(frozen=True, slots=True)
class Claim:
    """How a request claims to be signed."""

    signer: SigV4Auth
    """Has the secret key, the region and the service."""
    names: list[str]
    """Of the signed headers."""
    timestamp: str
    signed_at: datetime
    signature: str


@dataclass(frozen=True, slots=True)
class Signature:
    """A signature that was found to be right."""

    value: str
    signed_at: float
    """In seconds since the epoch, by the clock of the client."""

    @property
    def expires_at(self) -> float:
        return self.signed_at + _MAX_SKEW_SECONDS


def read_key_pairs(path: str) -> dict[str, str]:
    """Read a file in the format of ``~/.aws/credentials``; return the secret keys by access key.

    Raises:
        ConfigurationError: It cannot be read, other users can read it, or it contains no usable key pair.
    """
    parser = configparser.RawConfigParser()
    try:
        with open(path, encoding="utf-8") as file:
            if os.fstat(file.fileno()).st_mode & (stat.S_IRWXG | stat.S_IRWXO):
                raise ConfigurationError(f"--keys {path}: other users can access the file; run: chmod 600 {path}")
            parser.read_file(file)
    except OSError as error:
        raise ConfigurationError(f"--keys {path}: {(error.strerror or str(error)).lower()}") from None
    except (configparser.Error, UnicodeDecodeError):
        raise ConfigurationError(f"--keys {path}: not in the format of ~/.aws/credentials") from None
    pairs = {
        parser.get(section, "aws_access_key_id"): parser.get(section, "aws_secret_access_key")
        for section in parser.sections()
        if parser.has_option(section, "aws_access_key_id") and parser.has_option(section, "aws_secret_access_key")
    }
    if not pairs:
        raise ConfigurationError(f"--keys {path}: no profile with aws_access_key_id and aws_secret_access_key")
    if any(len(secret) < _MIN_SECRET_CHARACTERS for secret in pairs.values()):
        raise ConfigurationError(f"--keys {path}: a secret key needs at least {_MIN_SECRET_CHARACTERS} characters")
    return pairs


def verify(request: SignedRequest, key_pairs: Mapping[str, str], now: datetime | None = None) -> Signature:
    """Check that a request was signed, body included, with one of the key pairs within the last fifteen minutes.

    Raises:
        ApiError: It was not.
    """
    claim = read_claim(request, key_pairs, now)
    _check_body(request)
    if not hmac.compare_digest(_signature(request, claim), claim.signature):
        raise _refused("InvalidSignatureException", "the signature does not match the request and the secret key")
    return Signature(claim.signature, claim.signed_at.timestamp())


def read_claim(request: SignedRequest, key_pairs: Mapping[str, str], now: datetime | None = None) -> Claim:
    """Read how a request claims to be signed, which needs no body.

    Raises:
        ApiError: Not with one of the key pairs within the last fifteen minutes, whatever the body is.
    """
    given = request.headers.get("authorization")
    if given is None:
        raise _refused("MissingAuthenticationTokenException", "the request is not signed")
    match = _AUTHORIZATION.fullmatch(given.strip())
    if match is None:
        raise _refused("IncompleteSignatureException", "the Authorization header is not that of Signature Version 4")
    access_key, day, region, service, signed, signature = match.groups()
    names = signed.split(";")
    _check_coverage(request, names)
    timestamp = request.headers["x-amz-date"]
    signed_at = _check_time(timestamp, day, now or datetime.now(UTC))
    secret = key_pairs.get(access_key)
    if secret is None:
        raise _refused("UnrecognizedClientException", "the access key is unknown")
    signer = SigV4Auth(Credentials(access_key, secret), service, region)
    return Claim(signer, names, timestamp, signed_at, signature)


def _check_coverage(request: SignedRequest, names: list[str]) -> None:
    """Refuse a request of which a header that decides what it does is not signed, or absent."""
    deciding = {name for name in request.headers if name.startswith("x-amz-") or name == _SIGNED_IF_GIVEN}
    needed = _ALWAYS_SIGNED | deciding
    unsigned = sorted(name for name in needed | set(names) if name not in names or name not in request.headers)
    if unsigned:
        raise _refused("IncompleteSignatureException", f"not signed or absent: {', '.join(unsigned)}")


def _check_body(request: SignedRequest) -> None:
    """Refuse a body other than the one that was signed.

    A client may give the hash of the body in a header. The signature then covers the header only.
    """
    given = request.headers.get(_BODY_HASH)
    if given is None or given == hashlib.sha256(request.body).hexdigest():
        return
    if given == "UNSIGNED-PAYLOAD" or given.startswith("STREAMING-"):
        raise _refused("InvalidSignatureException", f"the body must be signed as a whole, not as {given[:100]}")
    raise _refused("InvalidSignatureException", "the body is not the one that was signed: its SHA-256 differs")


def _check_time(timestamp: str, day: str, now: datetime) -> datetime:
    try:
        signed_at = datetime.strptime(timestamp, SIGV4_TIMESTAMP).replace(tzinfo=UTC)
    except ValueError:
        raise _refused("IncompleteSignatureException", "X-Amz-Date is not a time like 20260131T120000Z") from None
    if not timestamp.startswith(day) or abs((now - signed_at).total_seconds()) > _MAX_SKEW_SECONDS:
        raise _refused("InvalidSignatureException", f"signature expired: signed at {timestamp}; check the clocks")
    return signed_at


def _signature(request: SignedRequest, claim: Claim) -> str:
    """Compute the signature as the client does, with botocore's signer."""
    signed = AWSRequest(
        method=request.method,
        url=f"http://{request.headers['host']}{request.path}",
        headers={name: request.headers[name] for name in claim.names},
        data=request.body,
    )
    signed.context["timestamp"] = claim.timestamp
    text = claim.signer.string_to_sign(signed, claim.signer.canonical_request(signed))
    return str(claim.signer.signature(text, signed))


def _refused(code: str, message: str) -> ApiError:
    return ApiError(code, message, _REFUSED)
