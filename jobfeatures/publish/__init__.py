"""Publishes features as files and over HTTP: atomic writes, removal, and recovery at a restart."""
