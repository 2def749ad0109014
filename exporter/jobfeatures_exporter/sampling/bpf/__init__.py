"""What tasks use, summed in the kernel by control group. The rule stands at the head of `sums.bpf.c`."""
