# Derived from `generated_vmm/binding/_async/__init__.py` by `make codegen`. Do not edit.
"""Sending what was made of arguments."""
