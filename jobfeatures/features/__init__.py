"""Turns job and machine records into the keys and values that jobs read: pure."""
