"""What PBS Pro, OpenPBS and Torque have in common: they descend from one program, and so do their words.

values.py         job ids, durations, sizes, execution hosts: all that a hook needs
records.py        what qstat and pbsnodes print, as text and as JSON → records
xmlrecords.py     the same as Torque's XML
jobs.py           records → jobs, with a table of states that each system brings
cluster.py        records → nodes and queues
asking.py         questions to qstat and pbsnodes
source.py         the source that asks about the jobs of this node
clustersource.py  the source of the controller role
accounting.py     accounting files → records of jobs
"""
