"""The daemon of a node: its threads, the board they share, its batch sources, and serving of hooks."""
