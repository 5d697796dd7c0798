"""Runs in other people's formats: traces for Perfetto, tables, event files."""
