"""The web configuration file of Prometheus' exporters: TLS and users."""
