"""Asks the search of the built documentation site twenty questions in users' words: SITE.

Prints at which place the right page is, and fails if it is first or second for fewer than eighteen. The page of
questions answers all of them: it is also counted for how many another right page is first or second among the others.
The site is what ``scripts/docs`` builds; it needs the ``playwright`` of ``.venvs/torch`` and a Chromium.
"""

from __future__ import annotations

import functools
import shutil
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

from playwright.sync_api import Page, sync_playwright

NEEDED = 18
OF_QUESTIONS = "i-want-to-know"
QUESTIONS = {
    "loss is NaN": ("nan-loss", "nonfinite_origin", OF_QUESTIONS),
    "overfitting": ("rising_validation_loss", "generalization_gap", OF_QUESTIONS),
    "does not learn": ("no_learning", "slow-learner", "frozen-head", "check-a-training", OF_QUESTIONS),
    "GPU idle": ("low_gpu_utilization", "where-the-time-goes", OF_QUESTIONS),
    "data loading slow": ("waiting-for-data", "input_bound", "dataloader", OF_QUESTIONS),
    "out of memory": ("memory_growth", "gpu_memory_increase", OF_QUESTIONS),
    "vanishing gradients": ("vanishing_gradient", "starving-layers", OF_QUESTIONS),
    "slow rank": ("straggler", "launchers", OF_QUESTIONS),
    "training hangs": ("stalled_training", OF_QUESTIONS),
    "mail me": ("how-to/actions", OF_QUESTIONS),
    "Slack": ("how-to/actions", OF_QUESTIONS),
    "Slurm": ("launchers", OF_QUESTIONS),
    "jupyter": ("notebooks", OF_QUESTIONS),
    "turn it off": ("faq", "overhead", OF_QUESTIONS),
    "wandb": ("comparison", "diagnose-a-log", OF_QUESTIONS),
    "existing log": ("diagnose-a-log", OF_QUESTIONS),
    "coding agent": ("how-to/agents", OF_QUESTIONS),
    "compare two runs": ("how-to/dashboard", OF_QUESTIONS, "compare"),
    "resume": ("how-to/resume", OF_QUESTIONS),
    "what does it cost": ("overhead", OF_QUESTIONS),
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


def _place(pages: list[str], answers: tuple[str, ...]) -> int:
    """Return the place of the first page that answers, from 1; 0: none does."""
    return next((at for at, path in enumerate(pages, 1) if any(f"{part}/" in path for part in answers)), 0)


def main(site: str) -> int:
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_SilentHandler, directory=site))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    program, right, right_without = shutil.which("chromium-headless-shell") or shutil.which("chromium"), 0, 0
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page()
        for question, answers in QUESTIONS.items():
            pages = found(page, f"http://127.0.0.1:{server.server_port}", question)
            place = _place(pages, answers)
            right += 1 <= place <= 2
            others = [path for path in pages if f"{OF_QUESTIONS}/" not in path]
            right_without += 1 <= _place(others, answers) <= 2
            print(f"{place or '-':>2}  {question:<22} {' '.join(pages[:3])}")
        browser.close()
    print(f"first or second: {right} of {len(QUESTIONS)}; without the page of questions: {right_without}")
    return right < NEEDED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
