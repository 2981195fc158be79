"""What a run will do, as data: targets, routes and what depends on what."""
