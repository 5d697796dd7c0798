"""Dockerfile and CITATION.cff agree with the package."""

from __future__ import annotations

import json
import re
import tomllib
from pathlib import Path
from typing import Any

import typer

from leadline import __version__
from leadline.cli.app import application

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
DOCKERFILE = (ROOT / "Dockerfile").read_text()


def instructions(name: str) -> list[str]:
    return re.findall(rf"^{name} (.+)$", DOCKERFILE.replace("\\\n", ""), re.MULTILINE)


def test_the_image_copies_what_the_build_reads() -> None:
    copied = {word for line in instructions("COPY") for word in line.split()[:-1]}
    assert {"pyproject.toml", PROJECT["project"]["readme"], *PROJECT["project"]["license-files"], "src"} == copied
    kept = {line.removeprefix("!") for line in (ROOT / ".dockerignore").read_text().splitlines() if line[0] == "!"}
    assert kept == copied
    assert all((ROOT / path).exists() for path in copied)


def test_the_image_installs_the_dashboard_on_a_supported_python() -> None:
    (extra,) = re.findall(r"whl\)\[(\w+)\]", DOCKERFILE)
    assert extra in PROJECT["project"]["optional-dependencies"]
    minimum = PROJECT["project"]["requires-python"].removeprefix(">=")
    versions = re.findall(r"^FROM python:([\d.]+)-slim", DOCKERFILE, re.MULTILINE)
    assert len(set(versions)) == 1
    assert [int(part) for part in versions[0].split(".")] >= [int(part) for part in minimum.split(".")]


def test_the_command_of_the_image_is_valid() -> None:
    program, command, *arguments = json.loads(instructions("ENTRYPOINT")[0]) + json.loads(instructions("CMD")[0])
    assert program in PROJECT["project"]["scripts"]
    group: Any = typer.main.get_command(application())
    parameters = group.commands[command].make_context(command, arguments).params
    assert (parameters["host"], str(parameters["port"])) == ("0.0.0.0", instructions("EXPOSE")[0])
    assert instructions("VOLUME") == ["/runs"]
    assert parameters["place"] == "/runs"


def test_the_citation_states_version_and_license() -> None:
    citation = dict(re.findall(r"^(\S+): (.+)$", (ROOT / "CITATION.cff").read_text(), re.MULTILINE))
    assert (citation["version"], citation["license"]) == (__version__, PROJECT["project"]["license"])
