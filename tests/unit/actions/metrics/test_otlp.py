"""OTLP: endpoint and headers; exports are tested against a receiver in tests/process."""

from __future__ import annotations

import pytest

from leadline.actions.metrics.otlp import read_headers, resolve_endpoint
from leadline.errors import ConfigurationError

WHOLE, BASE = "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.mark.parametrize(
    ("given", "environment", "url"),
    [
        ("", {}, "http://localhost:4318/v1/metrics"),
        ("http://c:4318", {}, "http://c:4318/v1/metrics"),
        ("http://c:4318/", {}, "http://c:4318/v1/metrics"),
        ("https://c/otlp/metrics", {}, "https://c/otlp/metrics"),
        ("", {BASE: "http://c:1/otlp/"}, "http://c:1/otlp/v1/metrics"),
        ("", {BASE: "http://c:1", WHOLE: "http://d:2/x"}, "http://d:2/x"),
        ("http://e:3", {BASE: "http://c:1", WHOLE: "http://d:2/x"}, "http://e:3/v1/metrics"),
    ],
)
def test_the_endpoint_is_resolved_as_in_opentelemetry(given: str, environment: dict[str, str], url: str) -> None:
    assert resolve_endpoint(given, environment) == url


def test_headers_have_the_notation_of_opentelemetry() -> None:
    assert read_headers("") == {}
    assert read_headers("Authorization=Bearer s3cret,x-team=a%20b") == {
        "authorization": "Bearer s3cret",
        "x-team": "a b",
    }


def test_a_token_alone_is_refused_and_not_shown() -> None:
    with pytest.raises(ConfigurationError, match="headers must be written name=value") as caught:
        read_headers("s3cret")
    assert "s3cret" not in str(caught.value)
