"""Reads and writes SSS job objects: XML documents that describe batch jobs.

Source: Scalable Systems Software Job Object Specification 3.1.0. All modules use `vocabulary` (one table of
elements, types, places, attributes and units, from which docs/generate.py writes sss.rng), `xml`, `awareness`
and `values`. For whole documents, without interpretation: `objects`, `reader`, `inherit`, `amounts`,
`explain`; `requests` matches a request against candidate nodes. For live jobs: `properties`, `job`,
`extensions`. For logs: `stream`, `records`, `writerecords`.
"""
