"""Further places of jobs' control groups: those named by settings, and those found and proven."""
