"""SSS job objects: the XML documents of the Scalable Systems Software Job Object Specification 3.1.0.

All is based on `vocabulary`, one table of elements, types, places, attributes and units, from which
docs/generate.py writes sss.rng, and on `xml`, `awareness` and `values`. Whole documents without
interpretation: `objects`, `reader`, `inherit`, `amounts`, `explain`; `requests` matches a request against
candidate nodes. Live jobs: `stated`, `job`, `extensions`. Logs: `stream`, `records`, `writerecords`.
"""
