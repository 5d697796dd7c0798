"""Contract of all rules, as test classes to inherit from."""

from __future__ import annotations

import inspect
import re
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import pytest

from leadline.config.parameters import describe, parameter_types, read_parameters
from leadline.errors import ConfigurationError, UnknownNameError
from leadline.judge.episodes import Event
from leadline.judge.evaluator import Evaluator
from leadline.judge.worker_messages import RuleTrackState
from leadline.records.needs import MetricNeed, Needs
from leadline.rules.rule import Rule
from leadline.store.documents import encode
from leadline.testing.runs import START_NS, ArrayStatistics, Capture, Part, RunWriter, SystemSample, TimelineEvent

SECTIONS = ("Why it matters", "How it decides", "Not a number", "Blind spots", "Args", "Source")


class RuleContract:
    """The contract of a rule; subclasses set the rule and two scenarios.

    Attributes:
        rule: The class of the rule.
        parameters: The parameters in these tests; empty: the defaults.
        fires_on: A scenario on which the rule fires.
        silent_on: A scenario on which the rule is clear.
        other_runs: Other runs that the rule compares with, by name.
        alternatives: Kinds or names of system metrics without which the rule can be clear.
    """

    rule: ClassVar[type[Rule]]
    parameters: ClassVar[Mapping[str, Any]] = {}
    fires_on: ClassVar[Sequence[Part]]
    silent_on: ClassVar[Sequence[Part]]
    other_runs: ClassVar[Mapping[str, Sequence[Part]]] = {}
    alternatives: ClassVar[Sequence[str]] = ()

    def judge(self, scenario: Sequence[Part]) -> tuple[RuleTrackState, list[Event]]:
        """Return state and events after a scenario, through store, reader and window."""
        with tempfile.TemporaryDirectory() as folder:
            for name, other in self.other_runs.items():
                RunWriter(f"{folder}/{name}").write_all(other).end()
            path = RunWriter(f"{folder}/run").write_all(scenario).end().path
            judging = Evaluator(path, [("it", self.rule(**self.parameters))], started_ns=START_NS)
            progress = judging.advance(is_over=True)
        return progress.rules["it"], [event for _, event in progress.events]

    def test_fires(self) -> None:
        state, events = self.judge(self.fires_on)
        assert state["verdict"] == "fired"
        (opened,) = [event for event in events if event["event"] == "opened"][:1]
        assert "\n" not in opened["message"]
        assert opened["message"]
        assert "; usually " in opened["suggestion"]
        assert encode(opened["evidence"])

    def test_is_clear_on_a_healthy_run(self) -> None:
        state, events = self.judge(self.silent_on)
        assert (state["verdict"], events, state["error"]) == ("clear", [], None)

    def test_is_undecided_without_data_and_gives_the_reason(self) -> None:
        state, events = self.judge([])
        assert (state["verdict"], events, state["error"]) == ("undecided", [], None)
        assert state["why"]

    def test_is_not_clear_without_one_of_its_inputs(self) -> None:
        for name, scenario in self._without_an_input():
            state, _ = self.judge(scenario)
            assert (name, state["verdict"]) != (name, "clear")

    def test_is_not_clear_before_it_has_seen_enough(self) -> None:
        least = self.rule(**self.parameters).least_observations
        steps = sorted({part.step for part in self.silent_on if isinstance(part, Capture)})
        for every in (1, 2, 3, 7):
            kept = set(steps[::every][: least - 1])
            state, _ = self.judge([part for part in self.silent_on if getattr(part, "step", -1) in kept])
            assert state["verdict"] in ("undecided", "not_applicable")
            assert state["why"]

    def test_is_clear_only_with_enough_of_its_captures(self) -> None:
        least = self.rule(**self.parameters).least_observations
        steps = sorted({part.step for part in self.silent_on if isinstance(part, Capture)})
        for every in (2, 3, 7):
            kept = set(steps[::every])
            scenario = [part for part in self.silent_on if getattr(part, "step", None) in (None, *kept)]
            state, events = self.judge(scenario)
            assert (state["error"], events) == (None, [])
            assert state["verdict"] != "clear" or not steps or len(kept) >= least

    def _without_an_input(self) -> Iterator[tuple[str, Sequence[Part]]]:
        """Yield the name of each input that a clear verdict requires, and the healthy scenario without it."""
        needs = self.rule(**self.parameters).needs()
        for name in {need.collection for need in needs.tensors if not need.is_optional}:
            if name not in (None, "all"):
                yield str(name), [_without(part, name) for part in self.silent_on]
        for metric in getattr(self.rule, "metrics", ()):
            if not {metric.kind, metric.metric} & set(self.alternatives):
                kept = (part for part in self.silent_on if not _is_sample_of(part, metric))
                yield metric.metric, list(kept)
        if "step" in needs.phases and not needs.metrics:
            yield "step", [part for part in self.silent_on if not isinstance(part, TimelineEvent)]

    def test_is_deterministic(self) -> None:
        assert encode(self.judge(self.fires_on)) == encode(self.judge(self.fires_on))

    def test_has_needs(self) -> None:
        assert isinstance(self.rule(**self.parameters).needs(), Needs)

    def test_is_immutable_and_comparable(self) -> None:
        one, other = self.rule(**self.parameters), self.rule(**self.parameters)
        assert one == other
        for name in parameter_types(self.rule):
            with pytest.raises(AttributeError):
                setattr(one, name, None)

    def test_rejects_unknown_parameters(self) -> None:
        with pytest.raises(UnknownNameError, match="no parameter of"):
            read_parameters(self.rule, {"no_such_parameter": 1})

    def test_rejects_values_of_the_wrong_type(self) -> None:
        for name, kind in parameter_types(self.rule).items():
            with pytest.raises(ConfigurationError, match=re.escape(f"{name} must be {describe(kind)}")):
                read_parameters(self.rule, {name: object()})

    def test_docstring_is_complete(self) -> None:
        text = inspect.getdoc(self.rule) or ""
        assert text.startswith(("Fires when ", "Never fires: "))
        parameters = list(parameter_types(self.rule))
        places = [text.find(f"\n{section}:\n") for section in SECTIONS if parameters or section != "Args"]
        assert -1 not in places
        assert places == sorted(places)
        _, _, arguments = text[: places[-1]].partition("\nArgs:\n")
        assert re.findall(r"^ {4}(\w+): ", arguments, re.MULTILINE) == parameters


class TableRuleContract(RuleContract):
    """The contract of a rule that never fires, but collects data; on ``fires_on`` it has collected some."""

    def test_fires(self) -> None:
        state, events = self.judge(self.fires_on)
        assert (state["verdict"], events, state["error"]) == ("clear", [], None)
        assert encode(state["product"])
        assert all(state["product"].values())

    def _without_an_input(self) -> Iterator[tuple[str, Sequence[Part]]]:
        """Yield nothing: a table has what there is."""
        yield from ()


def _without(part: Part, collection: str | None) -> Part:
    """Return a part without the tensors of a collection."""
    if not isinstance(part, (Capture, ArrayStatistics)):
        return part
    capture = part if isinstance(part, Capture) else part.capture
    kept = {name: part.values[name] for name in part.values if collection not in capture.info(name, {}).collections}
    return replace(part, values=kept)


def _is_sample_of(part: Part, metric: MetricNeed) -> bool:
    return isinstance(part, SystemSample) and metric.selects(
        part.channel.kind, part.channel.device, part.channel.metric
    )
