"""The step recorder: what is captured at each step, and how it reaches the writer."""
