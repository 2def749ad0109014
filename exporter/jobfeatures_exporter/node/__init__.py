"""The daemon of a node: its board, its threads, its batch sources, its hooks' requests."""
