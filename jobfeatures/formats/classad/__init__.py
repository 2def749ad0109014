"""Reads ClassAds, HTCondor's records, from their long form and from JSON; expressions are not evaluated."""
