"""Reports of runs: HTML pages and notebooks."""
