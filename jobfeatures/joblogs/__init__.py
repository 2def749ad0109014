"""Handles jobs as logs and accounting report them: job records, their merging, and log files."""
