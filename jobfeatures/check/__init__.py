"""Checks the directories of features of any provider: some modules read them, the others hold the rules."""
