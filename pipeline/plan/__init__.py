"""The plan of a run as data, the routes in it, and the router that walks them."""
