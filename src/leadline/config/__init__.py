"""What a user may set, and how it is resolved; written once, checked here."""
