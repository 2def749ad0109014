"""Where control groups stand: their hierarchies, and the directories of jobs in them."""
