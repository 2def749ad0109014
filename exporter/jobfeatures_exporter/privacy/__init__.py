"""Names of people: the one place where they are withheld or hashed."""
