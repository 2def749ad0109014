"""Keeping features as files: atomic writes, removal, and what a restart puts right."""
