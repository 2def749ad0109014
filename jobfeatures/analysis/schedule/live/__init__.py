"""Expected ends while a schedule is in progress, from accounting and the queue."""
