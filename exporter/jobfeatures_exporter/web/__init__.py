"""The HTTP listeners: metrics, pages for people, answers for nodes."""
