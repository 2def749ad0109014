"""Computes expected ends while jobs still wait and run, from accounting and the queue."""
