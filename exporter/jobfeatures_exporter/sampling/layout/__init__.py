"""Where control groups are: their hierarchies, and the directories of jobs in them."""
