"""All calls to the OpenID Provider."""
