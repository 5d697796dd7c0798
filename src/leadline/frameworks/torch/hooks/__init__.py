"""Hooks and patches through which PyTorch reports training steps."""
