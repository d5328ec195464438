# Derived from `generated_vmm/transport/_async/__init__.py` by `make codegen`. Do not edit.
"""Transports to a monitor."""
