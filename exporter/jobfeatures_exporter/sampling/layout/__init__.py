"""Where the control groups of jobs are: the hierarchies, and the directories of jobs in them."""
