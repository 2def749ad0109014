"""Documents of other people's design that describe jobs: one file, or one package, a format."""
