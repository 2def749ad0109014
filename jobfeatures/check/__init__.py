"""Check feature directories of any provider: reading is separate from the rules."""
