"""What is sent in Sonar's JSON format: documents, and the thread that sends them."""
