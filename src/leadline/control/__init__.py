"""What people ask of a running job, in a terminal or in the browser: the same words, and the same checks."""
