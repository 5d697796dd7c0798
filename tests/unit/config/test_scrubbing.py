"""Secrets in command lines, configurations, URLs and messages, against a corpus: ``tests/data/secrets.toml``."""

from __future__ import annotations

import json
import random
import re
import string
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from leadline.config.secrets import scrub, scrub_command, scrub_values
from leadline.reader.find_runs import read_manifest
from leadline.reader.summary import summarize
from leadline.store.run_notes import make_notes
from leadline.testing.runs import RunWriter

_FILE = Path(__file__).parents[2] / "data" / "secrets.toml"
_PLACE = re.compile(r"\{([aAxd])(\d+)\}")
_ALPHABETS = {
    "a": string.ascii_letters + string.digits,
    "A": string.ascii_uppercase + string.digits,
    "x": "0123456789abcdef",
    "d": string.digits,
}


def _filled(value: Any) -> Any:
    """Replace ``{a36}`` and its like by a text that is the same wherever it is written."""
    if isinstance(value, list):
        return [_filled(part) for part in value]
    return _PLACE.sub(_random, value) if isinstance(value, str) else value


def _random(match: re.Match[str]) -> str:
    drawn = random.Random(match[0]).choices(_ALPHABETS[match[1]], k=int(match[2]))
    return "".join(["7", *drawn[1:]] if match[1] in "ad" else drawn)


def _cases(kind: str) -> list[Any]:
    groups = tomllib.loads(_FILE.read_text())[kind]
    found = [{key: _filled(value) for key, value in case.items()} for group in groups for case in group["cases"]]
    return [pytest.param(case, id=str(case.get("text", case.get("command")))[:60]) for case in found]


def _scrubbed(case: dict[str, Any]) -> str:
    """Scrub twice, which must be the same as once: what is stored scrubbed is scrubbed again where it is sent."""
    if "command" in case:
        once = scrub_command(case["command"])
        assert scrub_command(once) == once
        return " ".join(once)
    text = scrub(case["text"])
    assert scrub(text) == text
    return text


@pytest.mark.parametrize("case", _cases("positive"))
def test_secrets_are_removed_and_the_rest_stays(case: dict[str, Any]) -> None:
    found = _scrubbed(case)
    given = case.get("text") or " ".join(case["command"])
    assert all(part in given for part in [*case["hidden"], *case["kept"]])
    assert [part for part in case["hidden"] if part in found] == [], found
    assert [part for part in case["kept"] if part not in found] == [], found


@pytest.mark.parametrize("case", _cases("negative"))
def test_what_is_no_secret_stays(case: dict[str, Any]) -> None:
    assert _scrubbed(case) == (case["text"] if "text" in case else " ".join(case["command"]))


def test_the_corpus_is_large() -> None:
    assert len(_cases("positive")) >= 200
    assert len(_cases("negative")) >= 100


def test_values_of_json_are_scrubbed_by_their_names_and_by_what_they_contain() -> None:
    given = {
        "job": {"password": "x1y2", "lr": 0.1, "tokens": [1, 2], "secrets": ["a1", "b2"], "note": "token=x1y2zz"},
        "args": ["--api-key", "postgres://u:x1y2@h"],
        "max_token": "512",
        "hub_token": "$HUB_TOKEN",
    }
    assert scrub_values(given) == {
        "job": {"password": "****", "lr": 0.1, "tokens": [1, 2], "secrets": ["****", "****"], "note": "token=****"},
        "args": ["--api-key", "postgres://u:****@h"],
        "max_token": "512",
        "hub_token": "$HUB_TOKEN",
    }


def test_values_of_json_in_texts_stay_values_of_json() -> None:
    assert scrub_values({"hub_token": '"x1y2"', "lr": '"0.1"'}) == {"hub_token": '"****"', "lr": '"0.1"'}


def test_what_people_and_earlier_versions_wrote_is_read_without_secrets(tmp_path: Path) -> None:
    RunWriter(tmp_path / "run").end().set_status("Completed", exit_status=0)
    manifest = tmp_path / "run" / "manifest.json"
    manifest.write_text(json.dumps(json.loads(manifest.read_text()) | {"command": ["t.py", "--wandb-key", "abc"]}))
    assert read_manifest(str(tmp_path / "run")).command == ("t.py", "--wandb-key", "****")
    assert summarize(str(tmp_path / "run")).command == ("t.py", "--wandb-key", "****")
    assert make_notes("restart with --api-key abc", ["token=x1y2z"]).note == "restart with --api-key ****"


_HOSTILE = [
    "a",
    "_",
    "password",
    "password=",
    "password='",
    'password="$(',
    "token=<",
    "key=1;",
    "token: [",
    "auth=(",
    "secret ",
    "--password",
    "--password ",
    "--password '$(",
    "-u ",
    "-u a",
    "://",
    "a://b:",
    "https://a:b@",
    "http://a/hooks/",
    "hooks.slack.com/",
    "eyJ",
    "eyJaaaaaaaaaaaa.",
    "sk-",
    "glpat-",
    "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN ",
    "Bearer ",
    "basic a",
    "login a password ",
    "name",
    "name: a, value ",
    "<password>",
    "password>",
    "\\",
    '\\"password\\": \\"',
    '"token": "\\',
    "'key':'",
    "&token",
    ";a",
    ",key",
    "0",
    "0123456789abcdef" * 3,
    "commit ",
    "sshpass -p",
    "{'password': ",
    "\n",
    " ",
    "password \n",
    "é",
]


def test_a_long_text_is_scrubbed_to_its_end() -> None:
    part = "".join(_HOSTILE)
    assert "hunter2" not in scrub(part * (200_000 // len(part)) + "\n--password hunter2")


@pytest.mark.slow
def test_the_time_is_proportional_to_the_length() -> None:
    """Each text takes a third of a second or less; with a time that grows by the square, it would be an hour."""
    code = (
        "import resource, sys\n"
        "from leadline.config.secrets import scrub\n"
        "resource.setrlimit(resource.RLIMIT_CPU, (300, 300))\n"
        "for part in sys.argv[1:]:\n"
        "    scrub(part * (300_000 // len(part.encode())))\n"
    )
    result = subprocess.run([sys.executable, "-c", code, *_HOSTILE], capture_output=True, text=True, check=False)
    assert (result.returncode, result.stderr) == (0, "")
