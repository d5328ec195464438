"""Monitors as processes, and what waits for them."""
