"""The node as a whole: its load, disks, hardware and software."""
