"""What makes an unchanged script watched: the folder ``site`` goes on ``PYTHONPATH``."""

from __future__ import annotations

import os

SITE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "site")
"""The folder that holds our ``sitecustomize``, and nothing else."""
