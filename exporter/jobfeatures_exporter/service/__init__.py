"""The daemon as a service: checks before its start, the service manager, and reloads of settings."""
