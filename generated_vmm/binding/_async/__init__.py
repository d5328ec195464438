"""Sending what was made of arguments."""
