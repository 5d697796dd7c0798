"""The version of Leadline."""

__version__ = "0.1.0"
