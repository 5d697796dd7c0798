"""Files of the user that have the names of modules that our processes import."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from launching import CONSOLE_SCRIPT, Ended, environment, finish, rule, script

pytestmark = [pytest.mark.slow, pytest.mark.real_starts]

NAMES = ("leadline", "types", "statistics", "msgspec", "psutil", "pyarrow", "json", "rich", "typer", "signal")
RULE = '''
import limits

from leadline.records.needs import Needs
from leadline.records.verdict import Clear
from leadline.rules.rule import Rule


class Own(Rule):
    """Imports a file beside it, one from PYTHONPATH, and one that another file hides."""

    def needs(self):
        return Needs.of("losses", "value")

    def evaluate(self, window):
        import late
        import shared

        assert (limits.LIMIT, shared.LIMIT, late.LIMIT) == (1, 2, 3)
        return Clear()
'''


@pytest.fixture(scope="module")
def ended(tmp_path_factory: pytest.TempPathFactory) -> Ended:
    """Train in a folder full of such files, with another such folder on PYTHONPATH."""
    folder = tmp_path_factory.mktemp("users")
    for name in NAMES:
        (folder / f"{name}.py").write_text(f"raise SystemExit('imported the {name} of the user')")
    (folder / "rules.py").write_text(RULE)
    (folder / "limits.py").write_text("LIMIT = 1")
    (folder / "late.py").write_text("LIMIT = 3")
    shared = folder / "shared"
    shared.mkdir()
    (shared / "shared.py").write_text("LIMIT = 2")
    (shared / "psutil.py").write_text("raise SystemExit('imported the psutil of PYTHONPATH')")
    (shared / "sitecustomize.py").write_text("import sys; sys.stderr.write('customized\\n')")
    training = folder / "src"
    training.mkdir()
    (training / "leadline.py").write_text("raise SystemExit('imported the leadline beside the script')")
    (training / "train.py").write_text(Path(script("healthy.py")).read_text())
    words = [CONSOLE_SCRIPT, "run", "--out", "runs", "--budget", "off", "--rule", "rules.py:Own", "src/train.py"]
    return finish(words, folder, env=environment(PYTHONPATH=str(shared)))


def test_the_training_is_captured_and_judged(ended: Ended) -> None:
    assert ended.status == 0, ended.err
    said = ended.show()
    assert said["steps"]["train"] == 300
    assert rule(said, "own")["verdict"] == "clear", rule(said, "own")
    assert rule(said, "exploding_tensor")["verdict"] == "clear"
    assert "Error" not in {entry["status"] for entry in said["rules"]}
    assert ended.run.system_metrics("cpu").num_rows
    assert "imported the" not in ended.err


def test_a_sitecustomize_runs_in_the_command_and_in_the_training_alone(ended: Ended) -> None:
    assert ended.err.count("customized") == 2


def test_a_package_of_the_user_that_is_named_leadline_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "leadline.py").write_text("NAME = 'mine'")
    (tmp_path / "train.py").write_text("import leadline, torch\nprint(leadline.NAME)")
    ended = finish([CONSOLE_SCRIPT, "run", "--out", "runs", "train.py"], tmp_path, env=environment())
    assert (ended.status, ended.out) == (0, "mine\n")
    assert f"capture disabled in this process: {tmp_path / 'leadline.py'} has its name" in ended.err


def test_a_library_of_ours_that_does_not_fit_never_ends_the_training(tmp_path: Path) -> None:
    """Such as one that was built for another numpy, which raises no ImportError."""
    (tmp_path / "train.py").write_text(
        "import sys\n"
        "class Unfit:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'leadline.training.session.api':\n"
        "            raise ValueError('numpy.dtype size changed')\n"
        "sys.meta_path.insert(0, Unfit())\n"
        "import torch\n"
        "print('trained')\n"
    )
    ended = finish([CONSOLE_SCRIPT, "run", "--out", "runs", "train.py"], tmp_path, env=environment())
    assert (ended.status, ended.out) == (0, "trained\n")
    assert "capture disabled in this process: ValueError: numpy.dtype size changed" in ended.err


def test_the_module_of_a_command_is_found_where_the_user_stands(tmp_path: Path) -> None:
    """What the user starts imports as it would without Leadline."""
    (tmp_path / "package.py").write_text("import types_of_mine; print(types_of_mine.NAME)")
    (tmp_path / "types_of_mine.py").write_text("NAME = 'mine'")
    words = [CONSOLE_SCRIPT, "run", "--out", "runs", sys.executable, "-m", "package"]
    ended = finish(words, tmp_path, env=environment())
    assert (ended.status, ended.out) == (0, "mine\n")
