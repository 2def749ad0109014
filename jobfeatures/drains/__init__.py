"""Drains: shutdown requests for nodes and jobs, what they waste, and which time or victim costs least."""
