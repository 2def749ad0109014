"""The daemon as a service: its threads' health, the service manager, and reloads of settings."""
