"""How soon the dashboard shows a day-long run: 24 h x 64 cores x 8 GPUs at 500 ms, 1 M steps, 500 tensors.

The run is generated, as the real writers' codec lays it down, and compacted as the agent has it done. Then a real
`leadline ui` is started each time anew and asked as a browser asks it: the page Overview with all its charts (cold),
the page Nodes, a zoom of each of its charts over time, and twenty viewers at once. What is sent is counted, the
server's memory is read from /proc, and Chromium says when it first painted.
"""

from __future__ import annotations

import argparse
import html
import re
import resource
import subprocess
import sys
import tempfile
import time
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import harness
from harness import Limit, Row
from long_runs import Day, write_day

from leadline.testing.runs import SECOND_NS, START_NS

NAME = "day"
VIEWERS = 20
PATIENCE_SECONDS = 300.0


@dataclass
class Server:
    """A `leadline ui` that runs."""

    pid: int
    address: str
    sent_bytes: int = 0

    def get(self, path: str) -> bytes:
        """What it answers."""
        with urllib.request.urlopen(self.address + path, timeout=PATIENCE_SECONDS) as answer:
            data: bytes = answer.read()
        self.sent_bytes += len(data)
        return data

    def charts(self, page: str) -> list[str]:
        """The addresses that a page's charts are fetched from."""
        found = []
        for place in re.findall(r"<div[^>]*data-chart=[^>]*>", self.get(page).decode()):
            told = {key: html.unescape(value) for key, value in re.findall(r'data-([a-z]+)="([^"]*)"', place)}
            address = told.get("src") or f"/runs/{NAME}/charts/{told['chart']}.json"
            found.append(f"{address}?{told.get('query', '')}&axis={told.get('axis', '')}")
        return found

    def view(self, page: str) -> float:
        """Seconds until a page and all its charts are there."""
        began = time.perf_counter()
        for address in self.charts(page):
            self.get(address)
        return time.perf_counter() - began

    @property
    def memory_mb(self) -> float:
        """The most that it has had in memory, shared pages included."""
        told = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        return int(told[1]) / 1000 if told else float("nan")


@contextmanager
def server(root: str) -> Iterator[Server]:
    """Start a dashboard, and end it."""
    command = [harness.LEADLINE, "ui", root, "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            found = re.search(r"http://\S+:\d+", line)
            if found is None:
                raise SystemExit(f"leadline ui did not start: {line}")
            yield Server(process.pid, found[0])
        finally:
            process.terminate()


def compacted(run: str, hours: float) -> list[Row]:
    """Compact the run; what an hour of it costs."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", "leadline.compaction", run], check=True)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    raw, derived = (size_mb(run, *parts) for parts in (("system", "timeline", "series"), ("compact",)))
    note = f"{wall:.0f} s in all, at nice 19; {raw:.0f} MB raw, {derived:.0f} MB derived"
    return [
        Row("compaction: processor time an hour of run", "s", harness.spread([seconds / hours]), note=note),
        Row("compaction: memory (RSS, max)", "MB", harness.spread([after.ru_maxrss / 1000]), Limit(300.0)),
    ]


def size_mb(run: str, *parts: str) -> float:
    """How much lies in some folders of a run."""
    return sum(each.stat().st_size for part in parts for each in Path(run, part).rglob("*") if each.is_file()) / 1e6


def viewed(root: str, day: Day, rounds: int) -> list[Row]:
    """The rows of what a viewer waits for."""
    cold, zooms, pages, memory, sent = [], [], [], [], []
    for index in range(rounds):
        with server(root) as asked:
            harness.progress(f"viewer {index + 1}/{rounds}")
            cold.append(asked.view(f"/runs/{NAME}"))
            sent.append(asked.sent_bytes / 1e6)
            pages.append(asked.view(f"/runs/{NAME}/nodes"))
            zooms += list(zoomed(asked, day))
            memory.append(asked.memory_mb)
    return [
        Row("overview with its charts, cold", "s", harness.spread(cold), Limit(2.0), values=tuple(cold)),
        Row("overview with its charts: sent", "MB", harness.spread(sent)),
        Row("page Nodes with its charts", "s", harness.spread(pages)),
        Row("a zoom of one chart", "s", harness.spread(zooms), Limit(0.3), values=tuple(zooms)),
        Row("server: memory (RSS, max)", "MB", harness.spread(memory), Limit(500.0, figure="most")),
    ]


def zoomed(asked: Server, day: Day) -> Iterator[float]:
    """Seconds of each chart over time of the page Nodes, nearer and nearer."""
    whole = int(day.hours * 3600 * SECOND_NS)
    charts = [each for each in asked.charts(f"/runs/{NAME}/nodes") if "axis=time" in each]
    for share in (0.1, 0.01, 0.001):
        start = START_NS + int(whole * 0.4)
        query = urllib.parse.urlencode({"start_ns": start, "end_ns": start + int(whole * share), "points": 600})
        for each in charts:
            began = time.perf_counter()
            asked.get(f"{each}&{query}")
            yield time.perf_counter() - began


def crowded(root: str, day: Day) -> list[Row]:
    """Twenty viewers at once, each of whom looks at the overview and zooms."""
    with server(root) as asked:
        asked.view(f"/runs/{NAME}")
        with ThreadPoolExecutor(VIEWERS) as pool:
            pages = list(pool.map(lambda _: asked.view(f"/runs/{NAME}"), range(VIEWERS)))
            zooms = [each for found in pool.map(lambda _: list(zoomed(asked, day)), range(VIEWERS)) for each in found]
        memory = [asked.memory_mb]
    return [
        Row(f"{VIEWERS} viewers at once: overview with its charts", "s", harness.spread(pages)),
        Row(f"{VIEWERS} viewers at once: a zoom of one chart", "s", harness.spread(zooms)),
        Row(f"{VIEWERS} viewers: server memory (RSS, max)", "MB", harness.spread(memory), Limit(500.0, figure="most")),
    ]


def painted(root: str, rounds: int) -> Row:
    """When Chromium first paints the overview of a server that has just started."""
    import shutil

    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError as error:
        return Row("first paint in Chromium", "s", None, note=str(error))
    found = []
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=arguments)
        for _ in range(rounds):
            with server(root) as asked:
                page = browser.new_page()
                page.goto(f"{asked.address}/runs/{NAME}", timeout=PATIENCE_SECONDS * 1000)
                told = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
                page.wait_for_function(told, timeout=PATIENCE_SECONDS * 1000)
                found.append(page.evaluate(told) / 1000)
                page.close()
        browser.close()
    return Row("first paint in Chromium, cold", "s", harness.spread(found), values=tuple(found))


def main() -> int:
    parser = harness.arguments(__doc__, rounds=5, quick_rounds=1)
    parser.add_argument("--hours", type=float, help="of the run; default 24, quick 1")
    parser.add_argument("--root", help="a folder in which a generated run is kept, for the next time")
    options: argparse.Namespace = parser.parse_args()
    hours = options.hours or (1.0 if options.quick else 24.0)
    day = Day(hours=hours, steps=int(1_000_000 * hours / 24))
    started, rounds = harness.machine(), harness.rounds_of(options)
    with tempfile.TemporaryDirectory() as scratch:
        root = options.root or scratch
        run, rows = str(Path(root, NAME)), []
        if not Path(run, "manifest.json").exists():
            harness.progress(f"writing {hours:g} h")
            write_day(run, day)
        if not Path(run, "compact").exists():
            harness.progress("compacting")
            rows += compacted(run, hours)
        rows += viewed(root, day, rounds)
        rows += crowded(root, day)
        rows.append(painted(root, rounds))
    return harness.report("dashboard", rows, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
