"""Two findings of a run never advise opposites: the severest one's advice stands."""

from __future__ import annotations

import ast
import inspect
import re

import pytest

from leadline.records.documents import SummarizedRule
from leadline.records.opposite_advice import StandingAdvice, directions
from leadline.records.outcome import ranked
from leadline.rules import registry

LOWER = "a tenth of the learning rate, or a warm-up over the first few hundred steps; usually the rate is too high"
HIGHER = "a ten times higher learning rate, or float32 copies of half precision weights; usually the rate is too low"


def fired(name: str, suggestion: str, *, severity: str = "warning", step: int = 0, cause: str = "") -> SummarizedRule:
    return SummarizedRule(
        name=name,
        rule=name,
        status="IssuesFound",
        severity=severity,  # type: ignore[arg-type]
        findings=1,
        step=step,
        suggestion=suggestion,
        explained_by=cause or None,
    )


@pytest.mark.parametrize(
    ("suggestion", "expected"),
    [
        (LOWER, {"learning rate": -1}),
        (HIGHER, {"learning rate": 1}),
        ("a learning rate higher by a factor of 20, or a check of the schedule", {"learning rate": 1}),
        (
            "the last checkpoint before it with half the learning rate, or clip gradients",
            {"learning rate": -1, "clipping": 1},
        ),
        ("a tenth of the rate", {"learning rate": -1}),
        ("shuffle=True; usually a higher learning rate was set", {}),
        ("a higher or a lower learning rate: a higher learning rate first", {}),
        ("separate rates", {}),
        ("the loss was still falling after 60 updates, so train for longer to judge the model", {"length": 1}),
        ("the checkpoint of step 7, early stopping on the validation loss", {"length": -1}),
        ("a smaller min_child_weight or gamma", {"leaves": -1}),
    ],
)
def test_what_a_suggestion_asks_to_move(suggestion: str, expected: dict[str, int]) -> None:
    assert directions(suggestion) == expected


@pytest.mark.parametrize("severity", ["fatal", "advice"])
def test_the_advice_of_the_severest_finding_stands(severity: str) -> None:
    rules = ranked([fired("no_learning", HIGHER, step=5), fired("exploding", LOWER, severity=severity, step=50)])
    standing = StandingAdvice.of(rules)
    told = [standing.agreeing(suggestion) for suggestion in (HIGHER, LOWER)]
    withheld, kept = (told[0], told[1]) if severity == "fatal" else (told[1], told[0])
    first = "exploding" if severity == "fatal" else "no_learning"
    assert withheld == f"the advice of {first} first; this finding alone would ask for the opposite"
    assert kept in (HIGHER, LOWER)
    assert [standing.agreeing(suggestion) for suggestion in told] == told


def test_of_equally_severe_findings_the_first_stands() -> None:
    rules = ranked([fired("late", HIGHER, step=50), fired("early", LOWER, step=5)])
    assert StandingAdvice.of(rules).opponent(HIGHER) == "early"


def test_advice_that_is_withheld_or_follows_from_another_finding_stands_for_nothing() -> None:
    both = f"{HIGHER.partition(',')[0]}, and a larger batch"
    rules = [
        fired("first", LOWER),
        fired("withheld", both),
        fired("third", "a smaller batch"),
        fired("effect", "a higher limit", cause="first"),
    ]
    standing = StandingAdvice.of(rules)
    assert standing.opponent("a smaller batch") == ""
    assert standing.opponent("clip gradients") == ""


def texts_of(rule: str) -> list[str]:
    """Return the texts in the module of a rule, without docstrings and the usual causes."""
    tree = ast.parse(inspect.getsource(inspect.getmodule(registry.find_rule(rule)) or object))
    strings = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant) and isinstance(node.value, str)]
    return [text.partition("; usually")[0] for text in strings if "\n" not in text]


def test_advice_on_the_rate_of_every_rule_is_understood() -> None:
    """Advice in words that no pattern knows would contradict other advice unseen."""
    asks = re.compile(
        r"\b(higher|lower|half|tenth|times)\b[\w ]{0,12}\blearning rate\b|\blearning rate (higher|lower)\b"
    )
    on_rates = [text for rule in registry.BUILT_IN for text in texts_of(rule) if asks.search(text)]
    assert len(on_rates) > 10
    assert [text for text in on_rates if "learning rate" not in directions(text)] == []
