"""What every rule promises, as tests to inherit from."""

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
    """The promises of a rule; inherit, and say which rule and two stories.

    Attributes:
        rule: The class.
        parameters: With which it is judged here; empty: its defaults.
        fires_on: A story on which it fires.
        silent_on: One on which it is clear.
        beside: Other runs that it compares with, by name.
    """

    rule: ClassVar[type[Rule]]
    parameters: ClassVar[Mapping[str, Any]] = {}
    fires_on: ClassVar[Sequence[Part]]
    silent_on: ClassVar[Sequence[Part]]
    beside: ClassVar[Mapping[str, Sequence[Part]]] = {}

    def judge(self, story: Sequence[Part]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
        """State and events after a story, by the way of store, reader and window."""
        with tempfile.TemporaryDirectory() as folder:
            for name, other in self.beside.items():
                RunWriter(f"{folder}/{name}").write_all(other).end()
            path = RunWriter(f"{folder}/run").write_all(story).end().path
            judging = Evaluator(path, [("it", self.rule(**self.parameters))], started_ns=START_NS)
            progress = judging.advance(is_over=True)
        return progress.rules["it"], [event for _, event in progress.events]

    def test_fires(self) -> None:
        state, events = self.judge(self.fires_on)
        assert state["verdict"] == "fired"
        (opened,) = [each for each in events if each["event"] == "opened"][:1]
        assert "\n" not in opened["message"]
        assert opened["message"]
        assert "; usually " in opened["suggestion"]
        assert encode(opened["evidence"])

    def test_is_clear_where_nothing_is_wrong(self) -> None:
        state, events = self.judge(self.silent_on)
        assert (state["verdict"], events, state["error"]) == ("clear", [], None)

    def test_is_undecided_without_data_and_says_why(self) -> None:
        state, events = self.judge([])
        assert (state["verdict"], events, state["error"]) == ("undecided", [], None)
        assert state["why"]

    def test_does_not_depend_on_when_it_is_asked(self) -> None:
        assert encode(self.judge(self.fires_on)) == encode(self.judge(self.fires_on))

    def test_asks_for_something(self) -> None:
        assert isinstance(self.rule(**self.parameters).needs(), Needs)

    def test_is_a_value(self) -> None:
        one, other = self.rule(**self.parameters), self.rule(**self.parameters)
        assert one == other
        for name in parameter_types(self.rule):
            with pytest.raises(AttributeError):
                setattr(one, name, None)

    def test_refuses_parameters_that_do_not_exist(self) -> None:
        with pytest.raises(UnknownNameError, match="no parameter of"):
            read_parameters(self.rule, {"no_such_parameter": 1})

    def test_refuses_values_that_are_none(self) -> None:
        for name, kind in parameter_types(self.rule).items():
            with pytest.raises(ConfigurationError, match=re.escape(f"{name} must be {describe(kind)}")):
                read_parameters(self.rule, {name: object()})

    def test_says_all_about_itself(self) -> None:
        text = inspect.getdoc(self.rule) or ""
        assert text.startswith(("Fires when ", "Never fires: "))
        places = [text.find(f"\n{each}:\n") for each in SECTIONS]
        assert -1 not in places
        assert places == sorted(places)
        arguments = text[places[SECTIONS.index("Args")] : places[SECTIONS.index("Source")]]
        documented = re.findall(r"^ {4}(\w+): ", arguments, re.MULTILINE)
        assert documented == list(parameter_types(self.rule))


class TableRuleContract(RuleContract):
    """The promises of a rule that never fires, but gathers something; ``fires_on`` is where it has gathered."""

    def test_fires(self) -> None:
        state, events = self.judge(self.fires_on)
        assert (state["verdict"], events, state["error"]) == ("clear", [], None)
        assert encode(state["product"])
        assert all(state["product"].values())
