"""What captures from JAX is compiled once: JAX's own log says what XLA compiles."""

from __future__ import annotations

import functools
import json
import math
import re
import tempfile
from pathlib import Path

import pytest
from launching import LEADLINE, ON_JAX, Ended, environment, finish, script

import leadline

PYTHON = str(Path(__file__).parents[2] / ".venvs" / "jax" / "bin" / "python")
_COMPILED = re.compile(r"Finished XLA compilation of jit\(leadline_capture\)")

pytestmark = pytest.mark.slow


def train(folder: Path, name: str, steps: int = 40, *more: str, **changes: str) -> Ended:
    options = ("--out", str(folder / "runs"), "--name", name, "--budget", "off", *more)
    words = [PYTHON, *LEADLINE[1:], "run", *options, "--", PYTHON]
    env = environment(**ON_JAX, **{"LEADLINE_CACHE": str(folder / "cache"), **changes})
    ended = finish([*words, script("jax_layers.py"), str(steps)], folder, env=env)
    assert ended.status == 0, ended.err
    return ended


def compiled(ended: Ended) -> int:
    """Return how many programs that capture XLA has compiled."""
    return len(_COMPILED.findall(ended.err))


@functools.cache
def trained() -> tuple[Path, Ended]:
    """Train for as long as all kinds of captures take to be due."""
    folder = Path(tempfile.mkdtemp())
    return folder, train(folder, "first", 400)


def test_one_program_serves_all_kinds_of_captures() -> None:
    folder, ended = trained()
    assert compiled(ended) == 1
    (worker,) = leadline.open_run(str(folder / "runs" / "first")).worker_documents().values()
    assert (worker.off, worker.notes) == (None, ())


def test_a_part_that_is_captured_often_gets_a_program_of_its_own() -> None:
    folder, _ = trained()
    ended = train(folder, "often", 3000, "--capture", "gradient_norms:every=1")
    assert compiled(ended) == 1  # the one of all kinds is that of the first run, which took as long as it saved
    run = leadline.open_run(str(folder / "runs" / "often"))
    assert run.tensor("gradient_norm").steps() == list(range(3000))


def test_the_values_of_stacked_tensors_are_their_own() -> None:
    folder, ended = trained()
    truth, run = json.loads(ended.lines[-1]), leadline.open_run(str(folder / "runs" / "first"))
    names = [f"{layer}/{name}" for layer in range(20) for name in ("b", "w")]
    for name, norm, change in zip(names, truth["norms"], truth["changes"], strict=True):
        weight, gradient = run.tensor(name), run.tensor(f"gradient/{name}")
        assert weight.statistic("l2", 0) == pytest.approx(norm, rel=1e-9), name
        assert gradient.statistic("l2", 0) == pytest.approx(change / 1e-2, rel=1e-2), name
        ratio = weight.statistic("update_ratio", 0)
        assert math.isinf(ratio) if norm == 0 and change else ratio == pytest.approx(change / norm, rel=1e-4), name


def test_the_next_run_compiles_nothing() -> None:
    folder, ended = trained()
    again = train(folder, "again")
    assert compiled(again) == 0
    assert again.lines[-1] == ended.lines[-1]
    runs = [leadline.open_run(str(folder / "runs" / name)) for name in ("first", "again")]
    for name in runs[0].tensor_names(collection="gradients"):
        assert len({run.tensor(name).statistic("l2", 0) for run in runs}) == 1, name


def test_a_folder_that_others_may_write_to_is_not_used() -> None:
    folder, _ = trained()
    (folder / "cache" / "jax-programs").chmod(0o777)
    try:
        assert compiled(train(folder, "unsafe", 2)) == 1
    finally:
        (folder / "cache" / "jax-programs").chmod(0o700)


def test_where_jax_keeps_programs_itself_it_keeps_ours(tmp_path: Path) -> None:
    ended = train(tmp_path, "own", 2, JAX_COMPILATION_CACHE_DIR=str(tmp_path / "own"))
    assert json.loads(ended.lines[-1])["folder"] == str(tmp_path / "own")
    assert not list(tmp_path.glob("cache/jax-programs/*"))
