"""The dashboard for Grafana: each of its queries names gauges and labels that the exporter really gives."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from leadline.actions.action import ActionContext
from leadline.actions.metrics.prometheus import Collector
from leadline.actions.metrics.run_metrics import RunMetrics
from leadline.records.notification import Notification, RuleState

DASHBOARD = json.loads((Path(__file__).parents[4] / "integrations" / "grafana" / "leadline.json").read_text())
_METRIC = re.compile(r"\b(leadline_\w+)(?:\{([^}]*)\})?")


@pytest.fixture(scope="module")
def exported() -> dict[str, set[str]]:
    """The names of the labels of each gauge, as they are scraped."""
    metrics = RunMetrics()
    rules = (RuleState("a", "exploding_tensor", "InProgress", None),)
    metrics.take(
        ActionContext("/nowhere", Notification("n", "rule_status", "r", "/", "InProgress", 7, rules=rules), (), 0)
    )
    registry = CollectorRegistry()
    registry.register(Collector(metrics))
    families = text_string_to_metric_families(generate_latest(registry).decode())
    return {sample.name: set(sample.labels) for family in families for sample in family.samples}


def queries(value: Any) -> Iterator[tuple[str, str]]:
    """Yield each query below a value, with the legend that is beside it."""
    if isinstance(value, dict):
        for key in ("expr", "query", "definition"):
            if isinstance(value.get(key), str) and "leadline_" in value[key]:
                yield value[key], value.get("legendFormat", value.get("titleFormat", ""))
        for each in value.values():
            yield from queries(each)
    elif isinstance(value, list):
        for each in value:
            yield from queries(each)


QUERIES = sorted(set(queries(DASHBOARD)))


@pytest.mark.parametrize(("query", "legend"), QUERIES, ids=[query for query, _ in QUERIES])
def test_a_query_names_what_is_exported(query: str, legend: str, exported: dict[str, set[str]]) -> None:
    found = _METRIC.findall(query)
    assert found
    for name, selectors in found:
        assert name in exported or name == "leadline_job_step"  # which is exported from the first step on
        labels = exported.get(name, {"run"})
        assert set(re.findall(r"(\w+)=~", selectors)) <= labels
        assert set(re.findall(r"\{\{(\w+)\}\}", legend)) <= labels | {"run"}
    values = re.fullmatch(r"label_values\((.*), (\w+)\)", query)
    assert values is None or values[2] in exported.get(found[0][0], {"run"})


def test_every_gauge_is_shown_and_panels_do_not_overlap(exported: dict[str, set[str]]) -> None:
    shown = {name for query, _ in QUERIES for name, _ in _METRIC.findall(query)}
    assert set(exported) <= shown
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24
        taken |= cells
    variables = {each["name"] for each in DASHBOARD["templating"]["list"]}
    used = set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD))) - {"__all"}
    assert used <= variables
