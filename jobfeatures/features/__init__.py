"""Computes the keys and values that jobs read, from job and machine records. Pure."""
