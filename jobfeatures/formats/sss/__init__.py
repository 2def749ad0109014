"""SSS job objects: the XML documents of the Scalable Systems Software Job Object Specification 3.1.0.

xml.py          bytes → elements, safely; knows XML and nothing of jobs
vocabulary.py   the one table of elements, attributes and units
awareness.py    which parts of a document we understand, and what its awareness policy makes of the rest
values.py       contents → values, within bounds
properties.py   which of several values counts
tasks.py        where a job runs
job.py          elements → Job, pure
write.py        Job → document
"""
