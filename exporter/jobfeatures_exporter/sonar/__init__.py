"""Output in Sonar's JSON format: the documents, and the thread that sends them."""
