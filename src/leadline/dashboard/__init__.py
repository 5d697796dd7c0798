"""The dashboard: a run, and many, as pages in a browser."""
