"""The stages of a sample: read groups and processes, attribute them, count, and make records of jobs."""
