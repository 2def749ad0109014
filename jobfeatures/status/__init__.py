"""What jobs report about themselves in $JOBSTATUS, and what follows from it."""
