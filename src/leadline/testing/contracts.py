"""Contract of all rules, as test classes to inherit from."""

from __future__ import annotations

import inspect
import re
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest

from leadline.config.parameters import describe, parameter_types, read_parameters
from leadline.errors import ConfigurationError, UnknownNameError
from leadline.judge.evaluator import Evaluator
from leadline.records.needs import Needs
from leadline.rules.rule import Rule
from leadline.store.documents import encode
from leadline.testing.runs import START_NS, Part, RunWriter

SECTIONS = ("Why it matters", "How it decides", "Not a number", "Blind spots", "Args", "Source")


class RuleContract:
    """The contract of a rule; subclasses set the rule and two scenarios.

    Attributes:
        rule: The class of the rule.
        parameters: The parameters in these tests; empty: the defaults.
        fires_on: A scenario on which the rule fires.
        silent_on: A scenario on which the rule is clear.
        other_runs: Other runs that the rule compares with, by name.
    """

    rule: ClassVar[type[Rule]]
    parameters: ClassVar[Mapping[str, Any]] = {}
    fires_on: ClassVar[Sequence[Part]]
    silent_on: ClassVar[Sequence[Part]]
    other_runs: ClassVar[Mapping[str, Sequence[Part]]] = {}

    def judge(self, scenario: Sequence[Part]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
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
