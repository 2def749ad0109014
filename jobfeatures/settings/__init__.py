"""Reads settings from flags, environment, files and defaults, and parses the command lines that take them."""
