"""How the instances of a job get the configuration of their run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest
from api_caller import CREATE

from leadline.launch.document import read_document
from leadline.serve.instances import Instances
from leadline.serve.job_folder import JobFolder, JobSpecification
from leadline.serve.run_configuration import resolved


class Engine:
    """Starts nothing."""

    def __init__(self) -> None:
        self.started: list[tuple[list[str], bytes]] = []

    def start(self, command: Sequence[str], environment: Mapping[str, str], folder: str, given: bytes) -> None:
        self.started.append((list(command), given))


@pytest.mark.parametrize("hosts", [["algo-1"], ["algo-1", "algo-2"]])
def test_what_was_resolved_is_their_standard_input_and_no_word_of_their_command(
    tmp_path: Path, hosts: list[str]
) -> None:
    folder = JobFolder(str(tmp_path), "first")
    specification = JobSpecification("first", "arn", "eu-west-1", CREATE, resolved(CREATE, folder.run), {})
    folder.write_specification(specification)
    engine = Engine()
    Instances(engine, folder, folder.specification(), {host: {} for host in hosts}, "python")  # type: ignore[arg-type]
    assert len(engine.started) == len(hosts)
    for words, given in engine.started:
        document = read_document(given, "standard input")
        assert document.manifest == specification.manifest
        assert document.is_shared == (len(hosts) > 1)
        assert "vanishing_gradient" in given.decode()
        assert "vanishing_gradient" not in " ".join(words).lower()
        begin = words.index("run")
        assert words[begin : begin + 5] == ["run", "--config", "-", "--smdebug", "--"]
