"""Records that packages pass to each other: samples, a scrape's context, ended jobs, statuses. No I/O."""
