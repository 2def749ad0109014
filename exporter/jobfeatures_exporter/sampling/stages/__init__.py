"""The stages of a sample (read groups and processes, attribute, count, record), and what these pass on."""
