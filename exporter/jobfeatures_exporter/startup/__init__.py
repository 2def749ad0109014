"""Starts and ends the daemon in either role: checks settings, opens listeners, reloads, and runs `doctor`."""
