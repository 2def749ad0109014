"""Makes documents in Sonar's JSON format, and sends them periodically from a thread for each kind."""
