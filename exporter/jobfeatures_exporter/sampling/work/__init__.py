"""Work of jobs that have the node to themselves, by the processor's own counters."""
