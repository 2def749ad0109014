"""The stages of a sample, and what they pass to each other."""
