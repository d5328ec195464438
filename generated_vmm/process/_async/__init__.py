"""Monitors as processes, and the functions that wait for them."""
