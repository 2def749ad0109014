"""One scrape: collectors and profiles make metric families of a `Context`, which become the page's text."""
