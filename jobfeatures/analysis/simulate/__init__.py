"""Simulates how another scheduler would have run a log's jobs.

pools, placing      machines as users describe them; which parts of them are free
policies, backfill  which job is next, and which jobs may start before it
engine              the loop over time: computes when each job starts
arriving            reads a log's jobs in order, from memory or disk
sizes, workload     convert a log to columns of jobs, and results to a log
swfschedule         writes the result in the Standard Workload Format
"""
