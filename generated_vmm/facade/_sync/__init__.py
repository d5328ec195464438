# Derived from `generated_vmm/facade/_async/__init__.py` by `make codegen`. Do not edit.
"""The client."""
