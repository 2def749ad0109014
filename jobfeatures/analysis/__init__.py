"""Judges logs of jobs: the quality of schedules, real and simulated. For commands and the controller role."""
