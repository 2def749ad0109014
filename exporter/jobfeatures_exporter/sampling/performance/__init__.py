"""Work done by jobs that have the node to themselves, from hardware performance counters."""
