"""What is printed to people: colours, bars, and names that do no harm to a terminal."""
