"""The environments of our own processes and of the user's programs."""

from __future__ import annotations

import os
from pathlib import Path

import leadline
from leadline.process.interpreter import USERS_PATH, own_environment, users_environment


def test_only_folders_of_installed_packages_stay_on_the_path(tmp_path: Path) -> None:
    installed, source, absent = tmp_path / "installed", tmp_path / "source", tmp_path / "absent"
    (installed / "numpy-2.0.dist-info").mkdir(parents=True)
    source.mkdir()
    package = str(Path(leadline.__file__).parents[1])
    path = os.pathsep.join(map(str, (source, installed, absent, "", package)))
    own = own_environment({"PYTHONPATH": path, "HOME": "/home"})
    assert own["PYTHONPATH"] == os.pathsep.join((str(installed), package))
    assert own_environment(own) == own
    assert users_environment(own) == {"PYTHONPATH": path, "HOME": "/home"}


def test_without_a_path_there_is_none() -> None:
    own = own_environment({"HOME": "/home"})
    assert own == {USERS_PATH: "", "HOME": "/home"}
    assert users_environment(own) == users_environment({"HOME": "/home"}) == {"HOME": "/home"}
