"""ClassAds, HTCondor's records, read from their long form and from JSON; expressions are not evaluated."""
