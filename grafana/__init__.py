"""Dashboards for Grafana: generated from the code here, see docs/grafana.md."""
