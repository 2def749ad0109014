"""What judges logs of jobs. Only commands and the controller role import it."""
