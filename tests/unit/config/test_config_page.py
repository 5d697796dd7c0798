"""``docs/reference/config.md`` shows every key of the configuration, with valid values."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

from leadline.actions import registry as actions
from leadline.actions.action import Action
from leadline.config.capture import CAPTURE_KEYS
from leadline.config.restriction import trust_file
from leadline.config.run_config import DEFAULTS, RunConfig
from leadline.config.toml_file import KEYS, PRESET_KEYS, from_table
from leadline.launch.prepare import prepare
from leadline.reader.find_runs import read_manifest
from leadline.records.names import PRESETS

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "reference" / "config.md").read_text()


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.fixture
def shown() -> dict[str, Any]:
    (text,) = blocks("toml")
    return tomllib.loads(text)


def test_every_key_is_shown(shown: dict[str, Any]) -> None:
    assert set(shown) == set(KEYS)
    assert set().union(*shown["presets"].values()) == set(PRESET_KEYS)


def test_every_key_of_a_capture_table_is_shown(shown: dict[str, Any]) -> None:
    tables = [table for given in shown["capture"].values() for table in (given if isinstance(given, list) else [given])]
    assert set().union(*tables) == set(CAPTURE_KEYS)


def test_only_one_value_of_the_example_is_a_default(shown: dict[str, Any]) -> None:
    """An example with default values only would not prove that the keys are read."""
    config = from_table(shown, "docs/reference/config.md")
    same = {name for name in KEYS if getattr(config, name) == getattr(DEFAULTS, name)}
    assert same == {"default_rules"}


def test_all_presets_are_named() -> None:
    assert all(preset in PAGE for preset in PRESETS)


def test_a_run_takes_the_example(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (text,) = blocks("toml")
    (tmp_path / "leadline.toml").write_text(text)
    monkeypatch.chdir(tmp_path)
    for name in ("TEAM_URL", "MAIL", "HOOK_TOKEN"):
        monkeypatch.setenv(name, "json://127.0.0.1:1/x")
    for name in ("notify", "webhook"):  # examples need no server
        monkeypatch.setattr(f"leadline.actions.{name}.check_reachable", lambda *_, **__: None)
    trust_file("leadline.toml")
    manifest = read_manifest(prepare(RunConfig(), ["train"]))
    assert (manifest.preset, manifest.interval_ms, manifest.plan.budget) == ("careful", 200, 0.05)
    assert {"stall_mail", "stall_stop", "overfit"} <= {spec.alias for spec in manifest.rules}
    assert "loss_spike" not in {spec.alias for spec in manifest.rules}
    assert [(spec.rule, spec.action) for spec in manifest.actions] == [
        ("stall_stop", "stop_training"),
        ("stall_mail", "notify"),
        ("stall_mail", "webhook"),
        ("exploding_tensor", "notify"),
        ("job", "run_command"),
    ]


def test_names_in_the_python_example_exist() -> None:
    (program,) = blocks("python")
    tree = ast.parse(program)
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom):
            module = __import__(node.module or "", fromlist=["*"])
            assert all(issubclass(getattr(module, alias.name), Action) for alias in node.names)
    (call,) = [
        node for node in ast.walk(tree) if isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "watch"
    ]
    from inspect import signature

    import leadline

    assert {keyword.arg for keyword in call.keywords} <= set(signature(leadline.watch).parameters)


def test_named_actions_exist() -> None:
    named = set(re.findall(r"--on '?[\w*@]+=(\w+)", PAGE))
    assert "notify" in named
    assert all(map(actions.is_built_in, named))
