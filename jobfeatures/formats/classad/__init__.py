"""ClassAds, HTCondor's records: the long form and JSON. Only literals have values."""

from jobfeatures.formats.classad.ad import UNDEFINED, ClassAd, Expression, Special, Value
from jobfeatures.formats.classad.longform import parse_ad, parse_ads, parse_value

__all__ = [
    "UNDEFINED",
    "ClassAd",
    "Expression",
    "Special",
    "Value",
    "parse_ad",
    "parse_ads",
    "parse_value",
]
