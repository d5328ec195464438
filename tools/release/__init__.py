"""What a release is checked with, and what goes with it."""
