# Derived from `generated_vmm/guest/_async/__init__.py` by `make codegen`. Do not edit.
