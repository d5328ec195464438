"""A web console for microVMs: users see all machines, and change what their roles allow."""
