"""The views: each takes the lab and a query, and returns the sections of a page."""
