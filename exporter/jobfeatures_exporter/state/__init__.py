"""What the daemon of a node keeps between samples: what is known of jobs, the last hour, ended jobs."""
