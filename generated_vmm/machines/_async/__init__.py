"""Written for tasks; `_sync` is derived from it by `make codegen`."""
