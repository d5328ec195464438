"""The console as it runs for many: several workers behind nginx, with one Redis."""
