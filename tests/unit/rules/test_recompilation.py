"""recompilation: counts of compilations, and limits."""

from __future__ import annotations

from rule_scenarios import captured

from leadline.records.verdict import Clear, Fired, NotApplicable, Undecided, Verdict
from leadline.rules.system.recompilation import Recompilation
from leadline.testing.windows import verdicts

TOTAL, FUNCTION = "process/recompilations", "f (a.py:7)"
CAUSE = f"{FUNCTION}: x/recompilations"


def judge(**values: float) -> Verdict:
    given = {
        "total": TOTAL,
        "count": CAUSE,
        "limit": f"{FUNCTION}/recompile_limit",
        "other": "loss (a.py:1): y/recompilations",
    }
    part = captured(10, {given[name]: {"value": value} for name, value in values.items()})
    return verdicts(Recompilation(), [part])[-1][1]


def test_what_is_compiled_again_and_again_fires_with_its_cause() -> None:
    found = judge(total=12.0, count=8.0, other=4.0)
    assert isinstance(found, Fired)
    assert found.message == f"{FUNCTION} was compiled 9 times; what did not hold was mostly x"
    assert found.tensors == (FUNCTION,)
    assert judge(total=11.0, count=7.0, other=4.0) == Clear()


def test_a_limit_that_was_reached_fires_at_any_count() -> None:
    found = judge(total=12.0, count=3.0, limit=4.0, other=7.0)
    assert isinstance(found, Fired)
    assert found.message.startswith(f"{FUNCTION} was compiled 4 times and runs uncompiled since: 4 is the limit; what")
    both = judge(total=12.0, count=3.0, limit=4.0, other=8.0)
    assert isinstance(both, Fired)
    assert both.message.endswith("mostly x, and 1 more function")


def test_what_was_compiled_once_is_clear_and_nothing_does_not_apply() -> None:
    assert judge(total=0.0) == Clear()
    assert isinstance(judge(total=-1.0), NotApplicable)
    assert isinstance(judge(limit=4.0), Undecided)
