"""An account page that lists and ends a user's sessions, which are in a SQL database."""
