"""The daemon as a service: what is checked at its start, its manager, and new settings while it runs."""
