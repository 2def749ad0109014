"""Evaluates schedules, real and simulated, from logs of jobs; for commands and the controller role."""
