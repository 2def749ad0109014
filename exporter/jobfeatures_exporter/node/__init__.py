"""The daemon of a node: its threads, its batch sources, its hooks' requests."""
