"""Rules on the probes of ``leadline check``: their verdicts on the results in worker documents."""

from __future__ import annotations

from typing import Any

import pytest

from leadline.reader.window import Scan, Window
from leadline.records.check_result import PROBES
from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict
from leadline.rules.registry import find_rule

NOW = 1_000


def result(outcome: str, probe: str = "mixed_samples", **changed: Any) -> dict[str, Any]:
    """Return a result as a worker document has it: without its evidence."""
    found = {"probe": probe, "outcome": outcome, "message": f"it {outcome}", "step": 2, "advice": "", "seconds": 0.1}
    return {**found, "time_ns": NOW, **changed}


def judge(*workers: dict[str, Any], probe: str = "mixed_samples", is_last: bool = False, time_ns: int = NOW) -> Verdict:
    """Judge the facts of these workers."""
    facts = {f"rank{rank}-{100 + rank}": facts for rank, facts in enumerate(workers)}
    scan = Scan(time_ns, 0, None, 10, facts=facts, is_last=is_last)
    verdict: Verdict = find_rule(probe)().evaluate(Window(10, "train", time_ns, scan=scan))
    return verdict


@pytest.mark.parametrize("probe", PROBES)
def test_every_probe_has_a_rule_of_its_name_that_reads_its_result_only(probe: str) -> None:
    other = next(name for name in PROBES if name != probe)
    facts = {"checks": {probe: result("passed", probe), other: result("failed", other)}}
    assert judge(facts, probe=probe) == Clear()
    assert isinstance(judge(facts, probe=other), Fired)


def test_a_failure_fires_with_message_advice_step_and_worker() -> None:
    failed = result("failed", message="sample 1 changes with sample 0", advice="set batch_first=True")
    fired = judge({"checks": {"mixed_samples": result("passed")}}, {"checks": {"mixed_samples": failed}})
    assert isinstance(fired, Fired)
    message = "sample 1 changes with sample 0 (on a copy of step 2)"
    assert (fired.message, fired.suggestion) == (message, "set batch_first=True")
    assert (fired.worker, fired.since_step) == ("rank1-101", 2)
    assert dict(fired.evidence) == {"probe": "mixed_samples", "checked_step": 2}


def test_a_probe_that_does_not_apply_is_not_clear_and_gives_its_reason() -> None:
    assert judge({"checks": {"mixed_samples": result("not applicable", message="no batch axis")}}) == NotApplicable(
        "no batch axis"
    )


def test_one_rank_that_passes_is_enough_where_none_fails() -> None:
    facts = {"checks": {"mixed_samples": result("not applicable")}}
    assert judge(facts, {"checks": {"mixed_samples": result("passed")}}) == Clear()


@pytest.mark.parametrize("facts", [{}, {"checks": {}}, {"checks": None}, {"checks": {"look_ahead": result("failed")}}])
def test_without_a_check_nothing_is_decided(facts: dict[str, Any]) -> None:
    verdict = judge(facts)
    assert isinstance(verdict, Undecided)
    assert "leadline run --check" in verdict.why


def test_without_workers_nothing_is_decided() -> None:
    assert isinstance(judge(), Undecided)


def test_a_result_counts_from_the_time_at_which_it_was_made() -> None:
    facts = {"checks": {"mixed_samples": result("failed")}}
    assert isinstance(judge(facts, time_ns=NOW - 1), Undecided)
    assert isinstance(judge(facts, time_ns=NOW), Fired)
    assert isinstance(judge(facts, time_ns=NOW - 1, is_last=True), Fired)
