"""An episode is worded once, when it opens."""

from __future__ import annotations

from dataclasses import replace

from leadline.judge.episodes import Episodes
from leadline.reader.window import Window
from leadline.records.verdict import Clear, Fired


def test_only_the_verdict_that_opens_a_finding_is_worded() -> None:
    """Wording takes longer than evaluating where a model has hundreds of layers."""
    worded = []

    def phrased(fired: Fired) -> Fired:
        worded.append(fired.message)
        return replace(fired, message=f"{fired.message} (linear)")

    episodes = Episodes("vanishing_gradient")
    verdicts = [Fired("a", ("0.weight",)), Fired("b", ("0.weight",)), Clear(), Fired("c", ("1.weight",)), Fired("d")]
    events = [
        event
        for step, verdict in enumerate(verdicts)
        for event in episodes.apply(verdict, Window(step, "train", step), lambda: {"0.weight"}, phrased=phrased)
    ]
    assert worded == ["a", "c"]
    assert [(event["event"], event["message"], event["count"]) for event in events] == [
        ("opened", "a (linear)", 1),
        ("closed", "a (linear)", 2),
        ("opened", "c (linear)", 1),
    ]
