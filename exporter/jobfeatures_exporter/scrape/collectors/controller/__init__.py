"""Collectors of the controller role: queue, nodes and schedule of whole clusters."""
