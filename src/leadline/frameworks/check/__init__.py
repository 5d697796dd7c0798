"""What the checks of all frameworks share: outcomes, bounds, and how numbers are judged."""
