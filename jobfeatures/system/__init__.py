"""What touches the system: programs, HTTP, files, notifications, the clock, logging."""
