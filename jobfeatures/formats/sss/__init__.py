"""SSS job objects: the XML documents of the Scalable Systems Software Job Object Specification 3.1.0.

xml.py          bytes → elements, safely; knows XML and nothing of jobs
vocabulary.py   the one table of elements, attributes and units
awareness.py    which parts of a document we understand, and what its awareness policy makes of the rest
job.py          elements → Job, pure
write.py        Job → document
"""

from jobfeatures.formats.sss.job import Document, parse_document, parse_jobs
from jobfeatures.formats.sss.write import format_job

__all__ = ["Document", "format_job", "parse_document", "parse_jobs"]
