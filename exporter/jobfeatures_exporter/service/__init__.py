"""Runs the daemon as a service: watches its threads, notifies the service manager, reloads settings."""
