"""Reads the node as a whole: its CPU time, memory, load, disks, hardware and software."""
