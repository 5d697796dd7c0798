"""Probes of a training on a copy of it: ``leadline check``."""
