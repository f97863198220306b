"""What watches Overspill from outside: Prometheus rules, the runbook, Grafana dashboards.

Declared here once in terms of `schemas.metrics`; `make generate` writes the files of it.
"""
