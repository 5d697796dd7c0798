"""Runs and trials from elsewhere: each is looked at in every way, in a process of its own with little time and memory.

``python tests/fault/hostile_runs.py 2000 [SEED]`` looks at two thousand, and prints what went wrong.
"""

from __future__ import annotations

import importlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import traceback
import zlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import leadline
from leadline.errors import LeadlineError
from leadline.judge.judge import judge_run
from leadline.reader.find_runs import list_runs
from leadline.records.event import Event
from leadline.records.manifest import RuleSpec
from leadline.records.request import SetInterval
from leadline.reports.files import write_product
from leadline.store import layout
from leadline.store.control import write_request
from leadline.store.documents import append_line, write_document
from leadline.testing.runs import (
    START_NS,
    ArrayStatistics,
    Capture,
    DetailedProfile,
    RawTensors,
    RunWriter,
    SystemSample,
    TimelineEvent,
)

TRIALS = Path(__file__).parents[1] / "data" / "smdebug"
SECONDS = 5
"""How long one way of looking may take, of processor time; the process may wait for a processor longer."""
WAIT_SECONDS = 60
MEGABYTES = 500
PAGES = ("", "/nodes", "/tensors", "/model", "/ranks", "/rules", "/profiles", "/reports", "/configure", "/notes")
VALUES = (
    *("1e400", "-1", "9" * 400, "1e308", "NaN", "null", "true", "0.5", "[]", "{}", "[[[]]]", '""'),
    *("9223372036854775808", "-9223372036854775809", '"../../../../../../etc/passwd"', '"/etc/passwd"', '".."'),
    *('"\\ud800"', f'"{"A" * 100_000}"', '"\\u0000"', '"\\u001b]0;x\\u0007"', "[" * 100_000 + "]" * 100_000),
)


def whole_run(path: Path) -> None:
    """Write a small judged run with a file of every kind."""
    rules = [RuleSpec(name, name) for name in ("exploding_tensor", "loss_not_decreasing", "dead_relu")]
    writer = RunWriter(path, rules=rules)
    weight = ("F32", (2, 2), bytes(16))
    for step in range(8):
        writer.write(Capture(step, {"loss": {"value": float("nan") if step == 5 else 1.0}, "a.weight": {"norm": 2.0}}))
        writer.write(RawTensors(step, {"a.weight": weight}))
        writer.write(ArrayStatistics(step, {"relu_output_0": {"unit_activity": [0.1, 0.9]}}))
        writer.write(SystemSample(START_NS + step * 10**9))
        writer.write(TimelineEvent(Event("forward", step, START_NS + step * 10**8, 5)))
    writer.write(DetailedProfile("w1", 2, START_NS, [("aten::mm", 0.0, 3.0), ("aten::relu", 4.0, 1.0)]))
    writer.write_worker("rank0-1", notes=["a note"], models=[{"name": "net", "parameters": 4}], losses={"loss": 1.0})
    writer.write_node("node", agent_pid=1)
    judge_run(writer.end().path, write=True)
    write_request(str(path), SetInterval("1-a", "asked", "user", 1, interval_ms=5))
    append_line(
        str(path / layout.ACTIONS), {"rule": "dead_relu", "action": "notify", "outcome": "sent", "state": "done"}
    )
    write_document(str(path / layout.NOTES), {"note": "mine", "tags": ["a"]})
    write_document(str(path / layout.INCARNATIONS), {"starts": []})
    write_document(str(path / layout.UPLOAD), {"uri": "", "uploaded_bytes": 1})
    write_product(str(path), "report")


def files_of(folder: Path) -> list[Path]:
    """Return the files that are small enough to be changed once more."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return sorted(path for path in files if path.stat().st_size < 1 << 20)


@dataclass(frozen=True)
class Mutation:
    """A change of a copy; returns what it did."""

    name: str
    apply: Callable[[random.Random, Path, Path], None]


def _json(chance: random.Random, root: Path, path: Path) -> None:
    lines = path.read_text(errors="replace").splitlines() or [""]
    at = chance.randrange(len(lines))
    try:
        document = json.loads(lines[at])
    except (ValueError, RecursionError):
        return _bytes(chance, root, path)
    places = list(_leaves(document))
    place, mark = chance.choice(places), "@@MARK@@"
    if not place:
        document = mark
    else:
        holder = document
        for key in place[:-1]:
            holder = holder[key]
        if isinstance(holder, dict) and chance.random() < 0.2:
            del holder[place[-1]]
        else:
            holder[place[-1]] = mark
    lines[at] = json.dumps(document).replace(json.dumps(mark), chance.choice(VALUES))
    path.write_bytes("\n".join([*lines, ""]).encode("utf-8", "surrogatepass"))
    return None


def _leaves(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield place
    items = value.items() if isinstance(value, dict) else enumerate(value[:4]) if isinstance(value, list) else ()
    for key, item in items:
        yield from _leaves(item, (*place, key))


def _bytes(chance: random.Random, root: Path, path: Path) -> None:
    content = bytearray(path.read_bytes())
    for _ in range(chance.choice([1, 4, 30])):
        if content:
            content[chance.randrange(len(content))] = chance.randrange(256)
    path.write_bytes(content)


def _unpacked(path: Path) -> bytes:
    """Return what a compressed file contains; nothing if it is none."""
    try:
        return zlib.decompressobj(31).decompress(path.read_bytes())
    except zlib.error:
        return b""


def _inside(chance: random.Random, root: Path, path: Path) -> None:
    """Change what a compressed file contains, so that all of it is decompressed; flushed here and there."""
    content = bytearray(_unpacked(path))
    if not content:
        return _bytes(chance, root, path)
    for _ in range(chance.choice([1, 1, 4])):
        content[chance.randrange(len(content))] = chance.randrange(256)
    packed, at = zlib.compressobj(chance.choice([0, 1, 9]), zlib.DEFLATED, 31), 0
    parts = []
    while at < len(content):
        found = content.find(b"\xff\xff\xff\xff", at + 1)  # where a message begins
        end = found if found > 0 else len(content)
        parts += [packed.compress(bytes(content[at:end])), packed.flush(zlib.Z_SYNC_FLUSH)]
        at = end
    path.write_bytes(b"".join(parts) + (packed.flush() if chance.random() < 0.5 else b""))
    return None


def _bomb(chance: random.Random, root: Path, path: Path) -> None:
    """Continue a file, after what is decompressed of it, with a gigabyte of nothing."""
    packed, begun = zlib.compressobj(9, zlib.DEFLATED, 31), _unpacked(path)
    if not begun:
        return _sparse(chance, root, path)
    parts = [packed.compress(begun[: chance.choice([0, len(begun) // 2, len(begun)])]), packed.flush(zlib.Z_SYNC_FLUSH)]
    parts += [packed.compress(bytes(1 << 24)) for _ in range(64)]
    path.write_bytes(b"".join(parts) + packed.flush(zlib.Z_SYNC_FLUSH))
    return None


def _cut(chance: random.Random, root: Path, path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[: chance.randrange(len(content) + 1)])


def _longer(chance: random.Random, root: Path, path: Path) -> None:
    path.write_bytes(path.read_bytes() + chance.randbytes(100))


def _gone(chance: random.Random, root: Path, path: Path) -> None:
    path.unlink()


def _pipe(chance: random.Random, root: Path, path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _folder(chance: random.Random, root: Path, path: Path) -> None:
    path.unlink()
    path.mkdir()


def _link(chance: random.Random, root: Path, path: Path) -> None:
    path.unlink()
    path.symlink_to(chance.choice(["/dev/zero", "/etc/passwd", "nowhere", str(path), "/"]))


def _folder_link(chance: random.Random, root: Path, path: Path) -> None:
    folder = path.parent
    if folder == root:
        return _link(chance, root, path)
    shutil.rmtree(folder)
    folder.symlink_to(chance.choice(["/dev", "/etc", "..", "."]))
    return None


def _sparse(chance: random.Random, root: Path, path: Path) -> None:
    os.truncate(path, 1 << 40)


def _deep(chance: random.Random, root: Path, path: Path) -> None:
    path.write_bytes(b"[" * 200_000 + b"]" * 200_000 + b"\n")


def _wide(chance: random.Random, root: Path, path: Path) -> None:
    path.write_bytes(b"[" + b"[]," * 2_500_000 + b"[]]\n")


def _many(chance: random.Random, root: Path, path: Path) -> None:
    path.write_bytes(b"[" + b"[]," * 99_000 + b"[]]\n")


def _other(chance: random.Random, root: Path, path: Path) -> None:
    path.write_bytes(chance.choice([b"[]\n", b"{}\n", b"3\n", b'"x"\n', b"\xff\xfe\n", b"", b"null\n"]))


def _swapped(chance: random.Random, root: Path, path: Path) -> None:
    shutil.copyfile(chance.choice(files_of(root)), f"{path}.new")
    os.replace(f"{path}.new", path)


_SMALL = [_json] * 8 + [_bytes, _inside, _inside, _cut, _longer, _gone, _other, _swapped]
_NASTY = [_bomb, _pipe, _folder, _link, _folder_link, _sparse, _deep, _wide, _many]


def mutate(chance: random.Random, root: Path) -> str:
    """Change a copy of a run or trial, and return how."""
    said = []
    for _ in range(chance.choice([1, 1, 2, 3])):
        change = chance.choice(_SMALL if chance.random() < 0.75 else _NASTY)
        path = chance.choice(files_of(root))
        if change is _json and path.suffix not in (".json", ".jsonl"):
            change = _inside
        said.append(f"{change.__name__.strip('_')} {path.relative_to(root)}")
        change(chance, root, path)
    return ", ".join(said)


def look(root: Path) -> None:
    """Look at the runs or trials below a folder in every way: what says why it cannot be read is fine."""
    from starlette.testclient import TestClient
    from typer.testing import CliRunner

    from leadline.cli.app import application
    from leadline.dashboard.app import create_app

    (path,) = root.iterdir()
    for words in (["ls", str(root)], ["show", str(path)], ["show", "--json", str(path)]):
        _begin()
        ended = CliRunner().invoke(application(words[0]), words, standalone_mode=False)
        if ended.exception is not None and not isinstance(ended.exception, (LeadlineError, SystemExit)):
            raise ended.exception
        assert ended.output or ended.exception is not None or words[0] == "ls", f"{words}: nothing was said"
    _begin()
    list_runs(root)
    try:
        run = leadline.open_run(path)
    except LeadlineError:
        run = None
    if run is not None:
        _ask(run)
    if not layout.is_run(str(path)):
        return
    client = TestClient(create_app(str(root)), base_url="http://127.0.0.1:8321", raise_server_exceptions=True)
    assert client.get("/").status_code == 200
    for page in PAGES:
        _begin()
        answer = client.get(f"/runs/{path.name}{page}")
        assert answer.status_code in (200, 204, 303, 307, 404, 409), f"{page}: {answer.status_code}"


def _begin() -> None:
    """Begin another way of looking, which has its own time."""
    signal.setitimer(signal.ITIMER_PROF, SECONDS)


def _ask(run: leadline.Run) -> None:
    for table in (run.scalars, run.series, run.system_metrics, run.timeline, run.findings, run.profiles, run.operators):
        with _said():
            table()
    with _said():
        run.verify()
    with _said():
        for name in run.tensor_names()[:4]:
            for step in run.tensor(name).steps()[:3]:
                with _said():
                    run.tensor(name).value(step)


class _said:
    """What is said in one line is fine."""

    def __enter__(self) -> None: ...

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> bool:
        return kind is not None and issubclass(kind, (LeadlineError, KeyError, LookupError))


def looked_at(root: Path) -> str:
    """Look at a folder in a forked process; return what went wrong, "" if nothing did."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reading)
        signal.signal(signal.SIGPROF, lambda *_: _end(writing, "hang: more than 5 s of processor time"))
        signal.signal(signal.SIGALRM, lambda *_: _end(writing, "hang: it waits"))
        signal.alarm(WAIT_SECONDS)
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        try:
            look(root)
        except BaseException:  # noqa: BLE001 - whatever it is, it is the answer
            _end(writing, "".join(traceback.format_exc().splitlines(keepends=True)[-8:]))
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        _end(writing, f"{peak} MB" if peak > MEGABYTES else "")
    os.close(writing)
    with os.fdopen(reading, errors="replace") as answers:
        answer = answers.read()
    _, status = os.waitpid(child, 0)
    return answer if status == 0 else f"{answer} (status {status})"


def _end(descriptor: int, answer: str) -> None:
    """End the forked process with the answer: nothing of the parent's is closed or flushed in it."""
    os.write(descriptor, answer[-3000:].encode(errors="replace"))
    os._exit(0)


def hostile(count: int, seed: int, folder: Path) -> Iterator[tuple[str, str]]:
    """Yield what was changed, and what went wrong when it was looked at, of each run and trial.

    Args:
        folder: Where they are made; each is removed again.
    """
    os.environ["LEADLINE_CACHE"] = str(folder / "cache")
    originals = [folder / "originals" / "run", *(TRIALS / name for name in ("pt1", "tf_tape", "xg1", "prof"))]
    whole_run(originals[0])
    chance = random.Random(seed)
    (folder / "untouched").mkdir()
    shutil.copytree(originals[0], folder / "untouched" / "run")
    for name in _imported_by(folder / "untouched"):
        with suppress(ImportError):
            importlib.import_module(
                name
            )  # without calling anything: a thread that it starts would be missing after fork
    for number in range(count):
        original = originals[0] if chance.random() < 0.7 else chance.choice(originals[1:])
        root = folder / f"root-{number}"
        shutil.copytree(original, root / original.name)
        how = f"{original.name}: {mutate(chance, root / original.name)}"
        yield how, looked_at(root)
        shutil.rmtree(root)
        shutil.rmtree(folder / "cache", ignore_errors=True)


def _imported_by(folder: Path) -> list[str]:
    """Look at a whole run in a process of its own, and return the modules that were imported for it."""
    code = "import hostile_runs, pathlib, sys; hostile_runs.look(pathlib.Path(sys.argv[1])); print(*sys.modules)"
    words = [sys.executable, "-W", "ignore", "-c", code, str(folder)]
    ended = subprocess.run(words, cwd=Path(__file__).parent, capture_output=True, text=True, check=True)
    return ended.stdout.splitlines()[-1].split()


def main() -> int:
    count, seed = int(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 1
    seen: Counter[str] = Counter()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        for how, answer in hostile(count, seed, Path(folder)):
            if answer:
                wrong += 1
                kind = answer.strip().splitlines()[-1][:100]
                seen[kind] += 1
                if seen[kind] <= 2:
                    print(f"--- {how}\n{answer}", flush=True)
    print(f"{count} mutated runs and trials, seed {seed}: {wrong} went wrong")
    for kind, times in seen.most_common():
        print(f"  {times:4} {kind}")
    return min(wrong, 1)


if __name__ == "__main__":
    sys.exit(main())
