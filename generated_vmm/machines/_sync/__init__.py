# Derived from `generated_vmm/machines/_async/__init__.py` by `make codegen`. Do not edit.
"""Written for tasks; `_sync` is derived from it by `make codegen`."""
