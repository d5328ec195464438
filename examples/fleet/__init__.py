"""The console for many users: several workers behind nginx, with one Redis."""
