"""Reads and writes SSS job objects: XML documents that describe batch jobs.

Every module uses `vocabulary`, the table of elements. For whole documents: `objects`, `reader`, `inherit`,
`amounts`, `explain`, `requests`. For live jobs: `properties`, `job`, `extensions`. For logs: `stream`,
`records`, `writerecords`. Source: Scalable Systems Software Job Object Specification 3.1.0.
"""
