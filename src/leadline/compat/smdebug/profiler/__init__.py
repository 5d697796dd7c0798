"""Readers of system metrics and timelines, in smdebug's interface."""
