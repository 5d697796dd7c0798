"""What a script logs through the libraries made for it, heard where they take it; nothing of them is imported."""
