"""Resolution and checks of actions before the training starts."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.config.options import parse_action
from leadline.errors import ConfigurationError, MissingExtraError, UnknownNameError
from leadline.judge.action_resolution import check_triggers, distinct, resolve_action, try_actions
from leadline.records.manifest import ActionSpec

SECRET = "s3cret-of-the-test"
CUSTOM = f"""
from leadline.actions import Action
from leadline.errors import ConfigurationError, MissingExtraError

class Loud(Action, frozen=True, kw_only=True):
    target = "words"
    statuses = ("IssuesFound", "Error")
    words: str
    extra_is_there: bool = True

    def check(self):
        if not self.extra_is_there:
            raise MissingExtraError(f"loud needs a horn for {{self.words}}: pip install 'leadline[horn]'")
        if self.words == "{SECRET}":
            raise ConfigurationError(f"{{self.words}} is not loud")
"""


@pytest.fixture
def folder(tmp_path: Path) -> str:
    (tmp_path / "loud.py").write_text(CUSTOM)
    return str(tmp_path)


@pytest.fixture
def listening() -> Iterator[int]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


def resolved(*words: str, folder: str = "", **targets: str) -> list[ActionSpec]:
    return [resolve_action(parse_action(each, folder), targets)[1] for each in words]


def test_an_action_of_a_file_with_its_own_statuses(folder: str) -> None:
    (spec,) = resolved("a=loud.py:Loud:$WORDS,cooldown=5", folder=folder)
    assert spec == ActionSpec(
        "a",
        "loud.py:Loud",
        ("IssuesFound", "Error"),
        {"words": "$WORDS", "cooldown": 5.0},
        "loud.py:Loud:$WORDS,cooldown=5",
        folder,
        "option",
    )
    assert [spec.follows(each) for each in ("IssuesFound", "Error", "Stopped")] == [True, True, False]


def test_amazons_names_are_recorded_under_leadlines_names() -> None:
    (spec,) = resolved("a=StopTraining:grace=5")
    assert (spec.action, spec.display_name, spec.parameters) == (
        "stop_training",
        "stop_training:grace=5",
        {"grace": 5.0},
    )


def test_every_status_includes_all_statuses() -> None:
    (spec,) = resolved("a@*=stop_training")
    assert spec.follows("Error")
    assert spec.follows("Completed")


def test_named_targets() -> None:
    (spec,) = resolved("a=webhook:@team,cooldown=5", team="https://h/$KEY")
    assert (spec.parameters["url"], spec.display_name) == ("https://h/$KEY", "webhook:@team,cooldown=5")
    with pytest.raises(ConfigurationError, match="no target named 'taem'; did you mean 'team'"):
        resolved("a=webhook:@taem", team="https://h/$KEY")


def test_equal_actions_are_merged_and_different_ones_are_not() -> None:
    specs = resolved("a=stop_training:grace=5", "a=StopTraining:grace=5.0", "a=stop_training", "b=stop_training")
    assert [(each.rule, each.parameters) for each in distinct(specs)] == [("a", {"grace": 5.0}), ("a", {}), ("b", {})]


def test_an_undefined_alias_is_refused() -> None:
    specs = resolved("stall_mial=stop_training")
    check_triggers(specs, ["stall_mial"])
    check_triggers(resolved("*=stop_training", "job=webhook:https://h"), [])
    with pytest.raises(UnknownNameError, match=r"did you mean 'stall_mail'\?.*--rule stall_mial=RULE would define it"):
        check_triggers(specs, ["stall_mail", "overfit"])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("*=stop_trainin", "no action named 'stop_trainin'; did you mean 'stop_training'"),
        ("*=stop_training:grase=1", "did you mean 'grace'"),
        ("*=stop_training:grace=-1", "stop_training: grace must be a number >= 0"),
        ("*=stop_training:grace=soon", "stop_training: grace must be a number >= 0, not 'soon'"),
        ("*=webhook", "webhook needs url: write webhook:URL"),
    ],
)
def test_actions_are_checked_before_the_training(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        resolved(text)


def test_secrets_are_filled_in_for_the_check_and_masked_in_its_errors(folder: str) -> None:
    specs = resolved("a=loud.py:Loud:$WORDS", folder=folder)
    try_actions(specs, {"WORDS": "aloud"})
    with pytest.raises(ConfigurationError) as caught:
        try_actions(specs, {"WORDS": SECRET})
    assert str(caught.value) == "--on a=loud.py:Loud:$WORDS: $WORDS is not loud"
    absent = resolved("a=loud.py:Loud:$WORDS,extra_is_there=false", folder=folder)
    with pytest.raises(MissingExtraError) as missing:
        try_actions(absent, {"WORDS": SECRET})
    assert str(missing.value).endswith("loud needs a horn for $WORDS: pip install 'leadline[horn]'")


def test_an_unknown_service_is_reported_with_the_nearest_name() -> None:
    with pytest.raises(
        ConfigurationError, match=r"^--on a=notify:\$ONE: no service of Apprise named 'slak'; did you mean"
    ):
        try_actions(resolved("a=notify:$ONE"), {"ONE": f"slak://{SECRET}/B"})


@pytest.mark.parametrize(("environment", "state"), [({}, "is not set"), ({"WORDS": ""}, "is empty")])
def test_variables_that_are_not_set_are_refused(folder: str, environment: dict[str, str], state: str) -> None:
    with pytest.raises(ConfigurationError, match=f"the variable WORDS {state}; export it before the start"):
        try_actions(resolved("a=loud.py:Loud:$WORDS", folder=folder), environment)


def test_variables_that_a_shell_resolves_need_not_be_set() -> None:
    try_actions(resolved("a=run_command:X=1; echo $X $NOWHERE ${Y:-1}"), {})


def test_equal_targets_are_checked_once(listening: int, monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []
    reach = socket.create_connection

    def counted(address: tuple[str, int], *rest: object, **more: object) -> socket.socket:
        tried.append(address)
        return reach(address, *rest, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(socket, "create_connection", counted)
    url = f"http://127.0.0.1:{listening}/x"
    try_actions(resolved(f"a=webhook:{url}", f"b=webhook:{url}", f"b@Error=webhook:{url}"), {})
    assert tried == [("127.0.0.1", listening)]
    try_actions(resolved(f"a=webhook:{url},probe=false"), {})
    assert len(tried) == 1


def test_an_action_that_its_file_does_not_contain(folder: str) -> None:
    with pytest.raises(ConfigurationError, match=r"--on a=loud\.py:Lout: no action named 'Lout'; did you mean 'Loud'"):
        resolved("a=loud.py:Lout:x", folder=folder)
