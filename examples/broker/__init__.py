"""A coding agent and a worker that call a calendar as their person, and never hold a token."""
