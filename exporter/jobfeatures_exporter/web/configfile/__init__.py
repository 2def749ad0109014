"""Reads the web configuration file, as Prometheus' exporters have it: TLS and users."""
