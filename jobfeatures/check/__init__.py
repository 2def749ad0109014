"""Checks directories of features (Machine/Job Features), made by any provider, against the specifications.

`fetching` reads the directories; `forms` and `consistency` hold the rules.
"""
