"""An application whose tokens are bound to a key, so that a stolen one opens nothing."""
