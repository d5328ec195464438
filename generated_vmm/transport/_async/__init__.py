"""The ways to a monitor."""
