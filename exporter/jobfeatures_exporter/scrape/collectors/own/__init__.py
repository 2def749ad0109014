"""Collectors of both roles: the exporter itself, its sources, listeners and sinks."""
