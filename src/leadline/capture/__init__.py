"""What is captured at a step, by the plan, and how it gets to the writer."""
