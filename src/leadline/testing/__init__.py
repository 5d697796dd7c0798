"""Synthetic runs and contract tests, for the tests of Leadline and of plugins."""
