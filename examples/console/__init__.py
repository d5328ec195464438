"""A web console for microVMs: sign in, look, and change what your roles allow."""
