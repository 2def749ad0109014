"""Simulates how another scheduler would have run a log's jobs.

pools, placing      machines as given; which parts of them are free
policies, backfill  which job is next, and which may start before it
engine              the loop over time: columns of jobs → when each starts
arriving            a log's jobs in order, in memory or on disk
sizes, workload     a log → columns of jobs, and results → a log
swfschedule         the result as lines of the Standard Workload Format
"""
