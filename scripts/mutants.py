"""Apply the small defects of tests/mutants.toml to a copy of the sources, one at a time, and show what catches each."""

from __future__ import annotations

import argparse
import json
import os
import queue
import re
import shutil
import signal
import subprocess
import sys
import sysconfig
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final, Literal

import psutil

PROJECT: Final = Path(__file__).resolve().parents[1]
LIST: Final = PROJECT / "tests" / "mutants.toml"
SOURCES: Final = PROJECT / "src"
_PYTEST: Final = ("-m", "pytest", "-x", "-q", "-n", "0", "-p", "no:cacheprovider", "--tb=line")
_MARK: Final = "MUTANT_SOURCES"
"""The variable by which processes that a test has left are found."""
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", re.MULTILINE)
_PASSED, _TESTS_FAILED, _NOTHING_COLLECTED = 0, 1, 5
_KEYS: Final = {"id", "file", "old", "new", "tests", "survives"}

Outcome = Literal["caught", "caught at import", "caught by the time limit", "SURVIVED", "ERROR"]


class InvalidMutantError(ValueError):
    """A mutant of the list cannot be applied: correct the list."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """A small defect, and the tests that should catch it."""

    id: str
    file: str
    """Relative to ``src/leadline``."""
    old: str
    """Text that occurs once in the file."""
    new: str
    tests: tuple[str, ...]
    """Files or node ids, the quickest first."""
    survives: bool = False
    """Whether it is known that no test catches it."""

    def applied(self, source: str) -> str:
        """Return the source with the defect.

        Raises:
            InvalidMutantError: The old text does not occur exactly once.
        """
        count = source.count(self.old)
        if count != 1:
            why = f"its old text occurs {count} times in {self.file}"
            raise InvalidMutantError(f"{self.id}: {why}; correct tests/{LIST.name}")
        return source.replace(self.old, self.new)


@dataclass(frozen=True, slots=True)
class Result:
    """What the tests of a mutant have shown."""

    id: str
    outcome: Outcome
    by: str
    """The test that failed first, or what prevented the tests."""
    seconds: float

    @property
    def is_caught(self) -> bool:
        return self.outcome.startswith("caught")


def read_list(path: Path = LIST) -> list[Mutant]:
    """Return the mutants of the list.

    Raises:
        InvalidMutantError: An entry lacks a key or has an unknown one, or an id occurs twice.
    """
    mutants: dict[str, Mutant] = {}
    for entry in tomllib.loads(path.read_text(encoding="utf-8"))["mutant"]:
        name = entry.get("id", "(no id)")
        wrong = (_KEYS - {"survives"}) ^ (set(entry) - {"survives"})
        if wrong or name in mutants:
            raise InvalidMutantError(f"{name}: {f'wrong keys: {sorted(wrong)}' if wrong else 'occurs twice'}")
        mutants[name] = Mutant(**{**entry, "tests": tuple(entry["tests"])})
    return list(mutants.values())


class SourceCopy:
    """A copy of the sources, which pytest and all processes of Leadline import in place of the project's.

    It is first on ``PYTHONPATH``, for all environments, and installed in an environment like this one, for tests that
    set that variable themselves.

    Every file that is written gets a time that none had before, in whole seconds as in compiled files: so no process
    uses what was compiled of another text.
    """

    def __init__(self, folder: Path) -> None:
        self.sources, self._runs = folder / "src", folder / "tmp"
        self._process: subprocess.Popen[str] | None = None
        shutil.copytree(SOURCES, self.sources, ignore=shutil.ignore_patterns("__pycache__"))
        self._time = int(time.time())
        self._python = _link_environment(folder / "venv", self.sources)

    @contextmanager
    def mutated(self, mutant: Mutant) -> Iterator[None]:
        """Have the defect in the copy.

        Raises:
            InvalidMutantError: It cannot be applied.
        """
        path = self.sources / "leadline" / mutant.file
        source = path.read_text(encoding="utf-8")
        self._write(path, mutant.applied(source))
        try:
            yield
        finally:
            self._write(path, source)

    def _write(self, path: Path, text: str) -> None:
        path.write_text(text, encoding="utf-8")
        self._time += 1
        os.utime(path, (self._time, self._time))

    def test(self, tests: Sequence[str], timeout: float) -> tuple[Outcome, str]:
        """Run tests until the first failure, and end all processes that they have left."""
        # as in scripts/run_tests.py; under CI, hypothesis draws the same examples all day and keeps none
        changes = {"PYTHONPATH": str(self.sources), _MARK: str(self.sources), "LATE_DYNAMO": "1", "CI": "1"}
        changes["FORK_STARTS"] = os.environ.get("FORK_STARTS", "1")
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"} | changes
        command = [self._python, *_PYTEST, f"--basetemp={self._runs}", *tests]
        self._process = process = subprocess.Popen(
            command,
            cwd=PROJECT,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            return "caught by the time limit", f"no end after {timeout:g} s"
        finally:
            self.end_processes()
            shutil.rmtree(self._runs, ignore_errors=True)
        return _outcome(process.returncode, output)

    def end_processes(self) -> None:
        """Kill the tests if they run, and what they have left, which would use the next mutant."""
        if self._process is not None and self._process.poll() is None:
            os.killpg(self._process.pid, signal.SIGKILL)
            self._process.wait()
        for left in psutil.process_iter():
            try:
                if left.environ().get(_MARK) == str(self.sources):
                    left.kill()
            except psutil.Error:  # it has ended, or is not ours
                continue


def _link_environment(folder: Path, sources: Path) -> str:
    """Make an environment that has what this one has, but the project from other sources; return its Python."""
    here, packages = Path(sys.prefix), Path(sysconfig.get_path("purelib"))
    own_packages, programs = folder / packages.relative_to(here), folder / "bin"
    for made in (own_packages, programs):
        made.mkdir(parents=True)
    for entry in here.iterdir():
        if entry.name not in ("bin", "lib", "lib64"):
            (folder / entry.name).symlink_to(entry)
    for entry in packages.iterdir():
        is_project = entry.suffix == ".pth" and (Path(entry.read_text(encoding="utf-8").strip()) / "leadline").is_dir()
        if is_project:
            (own_packages / entry.name).write_text(f"{sources}\n", encoding="utf-8")
        else:
            (own_packages / entry.name).symlink_to(entry)
    for entry in (here / "bin").iterdir():
        (programs / entry.name).symlink_to(entry)
    script = programs / "leadline"
    _, _, text = script.read_text(encoding="utf-8").partition("\n")
    script.unlink()
    script.write_text(f"#!{programs}/python\n{text}", encoding="utf-8")
    script.chmod(0o755)
    return str(programs / "python")


def _outcome(status: int, output: str) -> tuple[Outcome, str]:
    """Return what the exit status and the output of pytest tell."""
    if status == _PASSED:
        return "SURVIVED", ""
    failed = _FAILED.search(output)
    last = output.strip().splitlines()[-1:] or [f"pytest exited with status {status}"]
    if status == _NOTHING_COLLECTED or "ERROR: not found: " in output or "ERROR: file or directory not found" in output:
        return "ERROR", f"a test of the list does not exist: {last[0]}"
    if status == _TESTS_FAILED:
        return "caught", failed[1] if failed else last[0]
    return "caught at import", failed[1] if failed else last[0]


def run(mutants: Sequence[Mutant], *, jobs: int, timeout: float, is_check: bool) -> Iterator[Result]:
    """Yield the result of each mutant, or of its tests without a defect, in the order in which they are known."""
    free: queue.SimpleQueue[SourceCopy] = queue.SimpleQueue()
    done: queue.SimpleQueue[Result] = queue.SimpleQueue()

    def try_one(mutant: Mutant) -> None:
        copy, began = free.get(), time.monotonic()
        try:
            if is_check:
                outcome, by = copy.test(mutant.tests, timeout)
            else:
                with copy.mutated(mutant):
                    outcome, by = copy.test(mutant.tests, timeout)
        except Exception as error:  # noqa: BLE001 - one that fails must not hide the results of the others
            outcome, by = "ERROR", str(error)
        done.put(Result(mutant.id, outcome, by, round(time.monotonic() - began, 1)))
        free.put(copy)

    with tempfile.TemporaryDirectory(prefix="mutants-", ignore_cleanup_errors=True) as folder:
        copies = [SourceCopy(Path(folder).resolve() / str(number)) for number in range(jobs)]
        for copy in copies:
            free.put(copy)
        with ThreadPoolExecutor(jobs) as pool:
            for mutant in mutants:
                pool.submit(try_one, mutant)
            try:
                for _ in mutants:
                    yield done.get()
            except BaseException:  # Ctrl-C does not reach the tests
                pool.shutdown(wait=False, cancel_futures=True)
                for copy in copies:
                    copy.end_processes()
                raise


def _chosen(mutants: Sequence[Mutant], ids: Sequence[str]) -> list[Mutant]:
    known = {mutant.id: mutant for mutant in mutants}
    for name in ids:
        if name not in known:
            raise InvalidMutantError(f"no mutant named {name!r}; scripts/mutants --list names all")
    return [known[name] for name in ids] if ids else list(mutants)


def _with_own_tests(mutants: Iterable[Mutant]) -> list[Mutant]:
    """Return one mutant for each choice of tests: without a defect, the others would only repeat them."""
    return list({mutant.tests: mutant for mutant in reversed(list(mutants))}.values())[::-1]


def _describe(result: Result, *, is_check: bool, is_known: bool) -> str:
    what: str = result.outcome
    if is_check:
        what = "pass" if result.outcome == "SURVIVED" else f"DO NOT PASS ({result.outcome})"
    elif is_known:
        what = "survives, as is known" if result.outcome == "SURVIVED" else f"{what}, though listed as surviving"
    by = f"{' by ' if result.is_caught else ': '}{result.by}" if result.by else ""
    return f"{result.seconds:7.1f} s  {result.id}: {what}{by}"


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/mutants", description=__doc__)
    parser.add_argument("ids", nargs="*", metavar="ID", help="mutants to try; default: all")
    parser.add_argument("--list", action="store_true", help="only print the mutants")
    parser.add_argument("--check", action="store_true", help="run the tests on sources without a defect")
    parser.add_argument("--jobs", type=int, default=1, help="how many to try at a time")
    parser.add_argument("--timeout", type=float, default=600.0, help="seconds for the tests of one mutant")
    parser.add_argument("--out", help="file to which results are appended as JSON lines")
    return parser.parse_args(arguments)


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    try:
        chosen = _chosen(read_list(), options.ids)
    except InvalidMutantError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    if options.list:
        sys.stdout.writelines(f"{mutant.id}  {mutant.file}  {' '.join(mutant.tests)}\n" for mutant in chosen)
        return 0
    if options.check:
        chosen = _with_own_tests(chosen)
    is_known = {mutant.id: mutant.survives for mutant in chosen}
    results = []
    for result in run(chosen, jobs=options.jobs, timeout=options.timeout, is_check=options.check):
        results.append(result)
        _write(_describe(result, is_check=options.check, is_known=is_known[result.id]))
        if options.out:
            with open(options.out, "a", encoding="utf-8") as file:
                file.write(json.dumps(asdict(result)) + "\n")
    return _summarize(results, is_known, is_check=options.check)


def _summarize(results: Sequence[Result], is_known: dict[str, bool], *, is_check: bool) -> int:
    """Print how many were caught, and return the exit status."""
    if is_check:
        failed = [result for result in results if result.outcome != "SURVIVED"]
        _write(f"{len(results) - len(failed)} of {len(results)} choices of tests pass")
        return int(bool(failed))
    caught = sum(result.is_caught for result in results)
    known = sum(result.outcome == "SURVIVED" and is_known[result.id] for result in results)
    _write(f"{caught} of {len(results)} caught" + (f", {known} survive as is known" if known else ""))
    return int(caught + known < len(results))


def _write(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    sys.exit(main(sys.argv[1:]))
