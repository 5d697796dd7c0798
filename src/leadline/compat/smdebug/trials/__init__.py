"""Trials in smdebug's interface, over Leadline's reader: what smdebug wrote, and runs of Leadline."""

from leadline.compat.smdebug.trials.local_trial import LocalTrial
from leadline.compat.smdebug.trials.s3_trial import S3Trial
from leadline.compat.smdebug.trials.trial import Trial
from leadline.compat.smdebug.trials.utils import create_trial

__all__ = ["LocalTrial", "S3Trial", "Trial", "create_trial"]
