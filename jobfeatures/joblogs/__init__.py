"""Jobs as logs and accounting report them: their records, the merging of several into one, and log files."""
