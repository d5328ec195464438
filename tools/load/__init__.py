"""People by the dozen on the fleet, and what must hold for each of them all the time."""
