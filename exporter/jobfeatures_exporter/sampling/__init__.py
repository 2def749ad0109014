"""Reading the node: /proc, control groups, and which process belongs to which job."""
