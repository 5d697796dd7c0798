"""The run directory: the only place where training side and judging side meet."""
