"""Losses of Keras on TensorFlow that show every fact about a loss call, for the contract of adapters."""

from __future__ import annotations

import os
import runpy
from pathlib import Path

os.environ["KERAS_BACKEND"] = "tensorflow"
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"

_KERAS = runpy.run_path(str(Path(__file__).with_name("losses_of_keras.py")))
CAPTURE, owners, train = _KERAS["CAPTURE"], _KERAS["owners"], _KERAS["train"]
