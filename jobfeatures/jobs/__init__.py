"""Jobs on this node: what is known about them from several sources, and what that proves."""
