"""Records of jobs, machines and batch systems, and the texts that they are written in. Pure."""
