"""Transports to a monitor."""
