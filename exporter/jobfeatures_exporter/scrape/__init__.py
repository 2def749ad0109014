"""Makes the metrics page: collectors and profiles make metric families of a `Context`, which become text."""
