"""Control groups: where they are, what the kernel counts for them, and when they come and go."""
