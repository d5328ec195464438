"""An application that calls a calendar as its user, in a request and later without one."""
