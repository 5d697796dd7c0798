"""Asks the search of the built documentation site twenty questions in users' words: SITE.

Prints at which place the right page is, and fails if it is first or second for fewer than eighteen. The site is what
``scripts/docs`` builds; it needs the ``playwright`` of ``.venvs/torch`` and a Chromium.
"""

from __future__ import annotations

import functools
import shutil
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

from playwright.sync_api import Page, sync_playwright

NEEDED = 18
QUESTIONS = {
    "loss is NaN": ("nan-loss", "nonfinite_origin", "i-want-to-know"),
    "overfitting": ("rising_validation_loss", "generalization_gap", "i-want-to-know"),
    "does not learn": ("no_learning", "slow-learner", "frozen-head", "check-a-training", "i-want-to-know"),
    "GPU idle": ("low_gpu_utilization", "where-the-time-goes", "i-want-to-know"),
    "data loading slow": ("waiting-for-data", "input_bound", "dataloader", "i-want-to-know"),
    "out of memory": ("memory_growth", "gpu_memory_increase", "i-want-to-know"),
    "vanishing gradients": ("vanishing_gradient", "starving-layers", "i-want-to-know"),
    "slow rank": ("straggler", "launchers", "i-want-to-know"),
    "training hangs": ("stalled_training", "i-want-to-know"),
    "mail me": ("how-to/actions", "i-want-to-know"),
    "Slack": ("how-to/actions", "i-want-to-know"),
    "Slurm": ("launchers", "i-want-to-know"),
    "jupyter": ("notebooks", "i-want-to-know"),
    "turn it off": ("faq", "overhead", "i-want-to-know"),
    "wandb": ("comparison", "diagnose-a-log", "i-want-to-know"),
    "existing log": ("diagnose-a-log", "i-want-to-know"),
    "coding agent": ("how-to/agents", "i-want-to-know"),
    "compare two runs": ("how-to/dashboard", "i-want-to-know", "compare"),
    "resume": ("how-to/resume", "i-want-to-know"),
    "what does it cost": ("overhead", "i-want-to-know"),
}
"""A part of the address of each page that answers the question."""


def found(page: Page, address: str, question: str) -> list[str]:
    """Return the pages that the search names, the first of each once."""
    page.goto(f"{address}/?q={question}")
    links = page.locator(".md-search-result__item > a")
    links.first.wait_for(state="attached", timeout=20_000)
    page.wait_for_timeout(500)
    hrefs = links.evaluate_all("links => links.map(link => new URL(link.href).pathname)")
    return list(dict.fromkeys(hrefs))


class _SilentHandler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None: ...


def main(site: str) -> int:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_SilentHandler, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    program, right = shutil.which("chromium-headless-shell") or shutil.which("chromium"), 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page()
        for question, answers in QUESTIONS.items():
            pages = found(page, f"http://127.0.0.1:{server.server_port}", question)
            place = next((at for at, path in enumerate(pages, 1) if any(f"{part}/" in path for part in answers)), 0)
            right += 1 <= place <= 2
            print(f"{place or '-':>2}  {question:<22} {' '.join(pages[:3])}")
        browser.close()
    print(f"first or second: {right} of {len(QUESTIONS)}")
    return right < NEEDED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
