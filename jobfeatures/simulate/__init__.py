"""What another scheduler would have made of a log's jobs.

pools, placing      machines as they are given; which parts of them are free
queues, backfill    which job is next, and which may go before it
engine              the loop over time: columns of jobs → when each starts
arriving            a log's jobs in order, in memory or on disk
sizes, workload     these → those columns, and back to a log
swfschedule         the result as lines of the Standard Workload Format
"""
