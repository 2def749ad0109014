"""Settings from flags, environment, files and defaults, and the command lines that take them."""
