"""Trials that smdebug wrote, imported as runs."""
