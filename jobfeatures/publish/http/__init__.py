"""The features over HTTP(S). Other listeners use its connections, and nothing else of it."""
