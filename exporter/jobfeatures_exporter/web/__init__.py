"""What is served over HTTP."""
