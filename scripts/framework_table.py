"""Update the table of docs/reference/frameworks.md from the contract tests of the adapters; takes a minute."""

from __future__ import annotations

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "tests" / "contract"), str(ROOT / "tests" / "process")]


def main() -> None:
    from test_adapters_contract import BEGIN, END, PAGE, table

    before, _, rest = PAGE.read_text().partition(BEGIN)
    PAGE.write_text(f"{before}{BEGIN}\n{table()}\n{END}{rest.partition(END)[2]}")


if __name__ == "__main__":
    main()
