"""Attaching to unchanged scripts: the folder ``site`` is put on ``PYTHONPATH``."""

from __future__ import annotations

import os

SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")
"""The folder of our ``sitecustomize``, which contains nothing else."""
