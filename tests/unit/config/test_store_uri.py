"""URIs of object stores."""

from __future__ import annotations

import pytest

from leadline.config.store_uri import is_uri, parse_place
from leadline.errors import ConfigurationError


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://bucket/team/runs/", "s3://bucket/team/runs"),
        ("s3://bucket", "s3://bucket"),
        ("gs://bucket/x", "gs://bucket/x"),
        ("az://container/x", "az://container/x"),
        ("file:///mnt/runs", "/mnt/runs"),
        ("file://localhost/mnt/runs", "/mnt/runs"),
        ("./runs", "./runs"),
        ("C:/runs", "C:/runs"),
    ],
)
def test_a_place_is_a_path_or_the_uri_of_a_store(text: str, expected: str) -> None:
    assert parse_place(text) == expected
    assert is_uri(parse_place(text)) == (expected.partition(":")[0] in ("s3", "gs", "az"))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("ftp://host/x", "unknown scheme 'ftp'; known: s3://, gs://, az://, file://"),
        ("s3:///x", "the bucket is missing; for example s3://bucket/runs"),
        ("s3://", "the bucket is missing"),
        ("file://host/x", "needs an absolute path"),
        ("s3://key:hidden@bucket/x", "s3://bucket/x: only bucket and prefix belong into the URI"),
        ("az://container/x?sig=hidden", "az://container/x: only bucket and prefix belong into the URI"),
    ],
)
def test_a_wrong_uri_is_named_without_its_credentials(text: str, expected: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        parse_place(text)
    assert expected in str(caught.value)
    assert "hidden" not in str(caught.value)
