"""Exports of runs as what smdebug writes: trials, profiles and system metrics."""
