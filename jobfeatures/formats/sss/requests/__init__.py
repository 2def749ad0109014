"""What a job object asks for: expressions, nodes, dependencies. Pure."""
