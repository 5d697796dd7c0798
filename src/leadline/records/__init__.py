"""Plain data records shared by the training side and the judging side."""
