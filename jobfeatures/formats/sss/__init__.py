"""SSS job objects: the XML documents of the Scalable Systems Software Job Object Specification 3.1.0.

vocabulary.py    the one table of elements, types, places, attributes and units
sss.rng          the table as RELAX NG, written by docs/generate.py
xml.py           bytes ↔ elements, safely; knows XML and nothing of jobs
awareness.py     which parts of a document we understand, and what its awareness policy makes of the rest
values.py        contents ↔ values, within bounds

Whole documents, as they were said:
objects.py       the records
reader.py        elements → records
format.py        records → document
inherit.py       defaults → what each job, task group and task has
amounts.py       units, use over time, room to grow
names.py         lists, ranges and patterns of nodes and features
expressions.py   what is requested, evaluated over candidates
matching.py      which nodes have it
dependencies.py  which job waits for which
explain.py       what a document comes to, in words

Live jobs:
said.py          which of several values counts
job.py           a document → Job records, and where they run
write.py         Job → document
extensions.py    what we say in Extension elements

Logs of jobs:
stream.py        documents that follow each other → jobs
records.py       jobs → the records that all log formats share
writerecords.py  those records → one JobGroup
"""
