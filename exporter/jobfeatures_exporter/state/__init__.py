"""What the daemon of a node keeps between samples: rates, the last hour, ended jobs, jobs without groups."""
