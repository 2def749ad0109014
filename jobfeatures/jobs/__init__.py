"""Jobs on this node: what is known about them, and what that proves."""
