"""ClassAds, HTCondor's records: the long form and JSON. Only literals have values."""
