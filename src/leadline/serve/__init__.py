"""``leadline serve``: the part of SageMaker's API that starts and follows training jobs, on this machine."""
