"""Records that packages pass to each other: samples, data for a scrape, ended jobs, statuses. No I/O."""
