"""Features as files: atomic writes, removal, and recovery at a restart."""
