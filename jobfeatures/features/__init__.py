"""From records to the keys and values that jobs read: pure."""
