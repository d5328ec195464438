"""Accepts access tokens from clients (RFC 6750, RFC 9068, RFC 7662, RFC 9449, RFC 8705)."""
