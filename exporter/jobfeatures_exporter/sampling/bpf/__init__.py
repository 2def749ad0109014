"""Resource usage of tasks, summed in the kernel by control group. The head of `sums.bpf.c` has the rules."""
