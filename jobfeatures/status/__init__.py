"""What jobs tell of themselves in $JOBSTATUS, and what follows from it."""
