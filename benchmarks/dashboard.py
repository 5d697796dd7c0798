"""Response times of the dashboard for a day-long run: 24 h x 64 cores x 8 GPUs at 500 ms, 1 M steps, 500 tensors.

The run is generated in the format of the real writers, and compacted as by the agent. For every round a new
`leadline ui` is started and sent the requests of a browser: the Overview page with all its charts (cold), the Nodes
page, a zoom of each of its charts over time, and twenty concurrent viewers. The bytes sent are counted, the memory of
the server is read from /proc, and Chromium reports its first paint.
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
from itertools import chain
from pathlib import Path

import harness
from harness import Limit, Row

from leadline.testing.runs import SECOND_NS, START_NS

sys.path.append(str(harness.PROJECT / "tests" / "scenarios"))
from long_runs import Day, write_day

NAME = "day"
VIEWERS = 20
TIMEOUT_SECONDS = 300.0


@dataclass
class Server:
    """A running `leadline ui`."""

    pid: int
    address: str
    sent_bytes: int = 0

    def get(self, path: str) -> bytes:
        """Return the body of a response."""
        url = self.address + urllib.parse.quote(path, safe="/?&=,%:+")  # as a browser sends a space
        with urllib.request.urlopen(url, timeout=TIMEOUT_SECONDS) as response:
            data: bytes = response.read()
        self.sent_bytes += len(data)
        return data

    def charts(self, page: str) -> list[str]:
        """Return the data URLs of all charts of a page."""
        addresses = []
        for element in re.findall(r"<div[^>]*data-chart=[^>]*>", self.get(page).decode()):
            data = {key: html.unescape(value) for key, value in re.findall(r'data-([a-z]+)="([^"]*)"', element)}
            address = f"/runs/{NAME}/charts/{data['chart']}.json"
            addresses.append(f"{address}?{data.get('query', '')}&axis={data.get('axis', '')}")
        return addresses

    def view(self, page: str) -> float:
        """Fetch a page and all its charts; return the time in seconds."""
        began = time.perf_counter()
        for address in self.charts(page):
            self.get(address)
        return time.perf_counter() - began

    @property
    def memory_mb(self) -> float:
        """Peak resident memory, including shared pages."""
        match = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{self.pid}/status").read_text())
        return int(match[1]) / 1000 if match else float("nan")


@contextmanager
def server(root: str) -> Iterator[Server]:
    """Run a dashboard."""
    command = [harness.LEADLINE, "ui", root, "--port", "0", "--no-token"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        try:
            line = process.stdout.readline() if process.stdout else ""
            match = re.search(r"http://\S+:\d+", line)
            if match is None:
                raise SystemExit(f"leadline ui did not start: {line}")
            yield Server(process.pid, match[0])
        finally:
            process.terminate()


def compaction_rows(run: str, hours: float) -> list[Row]:
    """Compact the run; return the rows of its cost."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    subprocess.run([sys.executable, "-m", "leadline.compaction", run], check=True)
    after, wall = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter() - began
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    raw, derived = (size_mb(run, *parts) for parts in (("system", "timeline", "series"), ("compact",)))
    note = f"{wall:.0f} s in total, at nice 19; {raw:.0f} MB raw, {derived:.0f} MB derived"
    return [
        Row("compaction: CPU time per hour of run", "s", harness.spread([seconds / hours]), note=note),
        Row("compaction: memory (RSS, max)", "MB", harness.spread([after.ru_maxrss / 1000]), Limit(300.0)),
    ]


def size_mb(run: str, *parts: str) -> float:
    """Return the size of some folders of a run in MB."""
    return sum(file.stat().st_size for part in parts for file in Path(run, part).rglob("*") if file.is_file()) / 1e6


def viewer_rows(root: str, day: Day, rounds: int) -> list[Row]:
    """Measure the response times for one viewer."""
    cold, zooms, pages, memory, sent = [], [], [], [], []
    for index in range(rounds):
        with server(root) as dashboard:
            harness.progress(f"viewer {index + 1}/{rounds}")
            cold.append(dashboard.view(f"/runs/{NAME}"))
            sent.append(dashboard.sent_bytes / 1e6)
            pages.append(dashboard.view(f"/runs/{NAME}/nodes"))
            zooms += list(zoom_seconds(dashboard, day))
            memory.append(dashboard.memory_mb)
    return [
        Row("Overview page with its charts, cold", "s", harness.spread(cold), Limit(2.0), values=tuple(cold)),
        Row("Overview page with its charts: bytes sent", "MB", harness.spread(sent)),
        Row("Nodes page with its charts", "s", harness.spread(pages)),
        Row("zoom of one chart", "s", harness.spread(zooms), Limit(0.3), values=tuple(zooms)),
        Row("server: memory (RSS, max)", "MB", harness.spread(memory), Limit(500.0, figure="most")),
    ]


def zoom_seconds(dashboard: Server, day: Day) -> Iterator[float]:
    """Yield the response time of each chart over time of the Nodes page, at three zoom levels."""
    whole = int(day.hours * 3600 * SECOND_NS)
    charts = [chart for chart in dashboard.charts(f"/runs/{NAME}/nodes") if "axis=time" in chart]
    for share in (0.1, 0.01, 0.001):
        start = START_NS + int(whole * 0.4)
        query = urllib.parse.urlencode({"start_ns": start, "end_ns": start + int(whole * share), "points": 600})
        for chart in charts:
            began = time.perf_counter()
            dashboard.get(f"{chart}&{query}")
            yield time.perf_counter() - began


def concurrent_viewer_rows(root: str, day: Day) -> list[Row]:
    """Measure twenty concurrent viewers, each of which opens the Overview page and zooms."""
    with server(root) as dashboard:
        dashboard.view(f"/runs/{NAME}")
        with ThreadPoolExecutor(VIEWERS) as pool:
            pages = list(pool.map(lambda _: dashboard.view(f"/runs/{NAME}"), range(VIEWERS)))
            zooms = list(chain.from_iterable(pool.map(lambda _: list(zoom_seconds(dashboard, day)), range(VIEWERS))))
        memory = [dashboard.memory_mb]
    return [
        Row(f"{VIEWERS} concurrent viewers: Overview page with its charts", "s", harness.spread(pages)),
        Row(f"{VIEWERS} concurrent viewers: zoom of one chart", "s", harness.spread(zooms)),
        Row(
            f"{VIEWERS} concurrent viewers: server memory (max)",
            "MB",
            harness.spread(memory),
            Limit(500.0, figure="most"),
        ),
    ]


def first_paint_row(root: str, rounds: int) -> Row:
    """Measure the first paint of the Overview page in Chromium, with a server that has just started."""
    import shutil

    try:
        from playwright.sync_api import sync_playwright
    except ModuleNotFoundError as error:
        return Row("first paint in Chromium", "s", None, note=str(error))
    seconds = []
    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
        program = shutil.which("chromium-headless-shell") or shutil.which("chromium")
        browser = playwright.chromium.launch(executable_path=program, args=arguments)
        for _ in range(rounds):
            with server(root) as dashboard:
                page = browser.new_page()
                page.goto(f"{dashboard.address}/runs/{NAME}", timeout=TIMEOUT_SECONDS * 1000)
                first_paint = "performance.getEntriesByName('first-contentful-paint')[0]?.startTime"
                page.wait_for_function(first_paint, timeout=TIMEOUT_SECONDS * 1000)
                seconds.append(page.evaluate(first_paint) / 1000)
                page.close()
        browser.close()
    return Row("first paint in Chromium, cold", "s", harness.spread(seconds), values=tuple(seconds))


def main() -> int:
    parser = harness.arguments(__doc__, rounds=5, quick_rounds=1)
    parser.add_argument("--hours", type=float, help="duration of the run in hours; default 24, with --quick 1")
    parser.add_argument("--root", help="keep the generated run in this folder and reuse it")
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
            rows += compaction_rows(run, hours)
        rows += viewer_rows(root, day, rounds)
        rows += concurrent_viewer_rows(root, day)
        rows.append(first_paint_row(root, rounds))
    return harness.report("dashboard", rows, started=started, options=options)


if __name__ == "__main__":
    sys.exit(main())
