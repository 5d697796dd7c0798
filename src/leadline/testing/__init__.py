"""What tests of Leadline and of other people's rules build on: synthetic runs and contracts."""
