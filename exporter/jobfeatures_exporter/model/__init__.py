"""What rooms pass to each other: a sample, a scrape's context, ended jobs, statuses. Does no I/O."""
