"""Readers of runs: lookup, live reading and queries."""
