"""Servers elsewhere that commands ask: what they want to be told, and Prometheus."""
