"""One scrape: from a context by collectors and profiles to a page of text."""
