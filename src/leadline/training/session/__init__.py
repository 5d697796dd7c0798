"""The capture session of a training process: start, requests, shutdown."""
