"""Decides, from several sources, which jobs are on this node and what is known about them."""
