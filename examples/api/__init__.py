"""An API that accepts the session of a person or the access token of a program."""
