"""Whether this process runs in a SageMaker job."""

from __future__ import annotations

import os
from typing import Final

_JOB: Final = "TRAINING_JOB_NAME"


def is_sagemaker_job() -> bool:
    """Return whether this process runs in a training job of SageMaker."""
    return _JOB in os.environ
