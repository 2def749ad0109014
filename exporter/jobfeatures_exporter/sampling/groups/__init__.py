"""Control groups of jobs: lists and reads them, and notices when they are created and removed."""
