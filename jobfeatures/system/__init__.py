"""Wraps the operating system: programs, HTTP, files, notifications, clock, logging."""
