"""A node and its jobs as people see them: what the HTML page, `top` and reports show. No I/O.

Views are made of metrics, looked up by name and labels, of a page or a Prometheus server: so all show the
same. docs/figures.md defines each figure.
"""
