"""Episodes: what is worded, and what is over."""

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


def test_what_a_rule_that_passes_found_is_over_once_it_is_clear_and_not_once_the_training_ends() -> None:
    fired = Fired("stays at 0.69", ("loss",))

    def closed(episodes: Episodes, *, by_end: bool) -> bool:
        episodes.apply(fired, Window(1, "train", 1), None)
        (event,) = episodes.end() if by_end else episodes.apply(Clear(), Window(2, "train", 2), None)
        return bool(event["has_passed"])

    assert closed(Episodes("metric_not_improving", passes=True), by_end=False)
    assert not closed(Episodes("metric_not_improving", passes=True), by_end=True)
    assert not closed(Episodes("loss_spike"), by_end=False)
