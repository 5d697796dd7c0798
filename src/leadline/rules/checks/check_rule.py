"""Base class of the rules on the probes of ``leadline check``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Final

from leadline.records.check_result import CheckResult
from leadline.rules import Advice, Clear, Needs, NotApplicable, Rule, Undecided, Verdict, Window
from leadline.rules.messages import fired

_ADVICE: Final = Advice("{found}", "found")
"""What the probe itself advises."""
_FACT: Final = "checks"
_NO_CHECK: Final = "no copy of the training was checked yet; leadline check, or leadline run --check"


class CheckRule(Rule, frozen=True, kw_only=True):
    """A rule on one probe, whose name it has."""

    spans_trainings: ClassVar[bool] = True

    def needs(self) -> Needs:
        return Needs(scan_seconds=1.0, facts=True)

    def evaluate(self, window: Window) -> Verdict:
        assert window.scan is not None
        known = ((worker, self._result(facts)) for worker, facts in sorted(window.facts.items()))
        found = [
            (worker, result)
            for worker, result in known
            if result is not None and (result.time_ns <= window.scan.time_ns or window.scan.is_last)
        ]
        for worker, result in found:
            if result.outcome == "failed":
                return fired(
                    f"{result.message} (on a copy of step {result.step:,})",
                    advice=_ADVICE.given(found=result.advice),
                    evidence={"probe": result.probe, "checked_step": result.step},
                    worker=worker,
                    since_step=result.step,
                )
        if any(result.outcome == "passed" for _, result in found):
            return Clear()
        return NotApplicable(found[0][1].message) if found else Undecided(_NO_CHECK)

    def _result(self, facts: Mapping[str, Any]) -> CheckResult | None:
        document = (facts.get(_FACT) or {}).get(self.name)
        return None if document is None else CheckResult.from_dict({"evidence": {}, **document})
