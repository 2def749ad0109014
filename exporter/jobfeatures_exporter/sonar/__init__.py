"""What is told in Sonar's JSON format: documents, and the thread that sends them."""
