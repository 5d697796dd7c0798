"""Judging runs: planning what rules need, showing them the stream, and writing down what they say."""
