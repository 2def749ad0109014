"""Parsers of files of control groups, processes and the node. No I/O."""
