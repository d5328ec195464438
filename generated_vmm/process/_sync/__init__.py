# Derived from `generated_vmm/process/_async/__init__.py` by `make codegen`. Do not edit.
"""Monitors as processes, and the functions that wait for them."""
