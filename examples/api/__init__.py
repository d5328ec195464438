"""An API with two doors: a session for people, an access token for programs."""
