"""Web dashboard of runs."""
