"""What one job asked for, used and wasted, found on a Prometheus server: `jobfeatures-exporter report`.

`queries` writes PromQL, `finding` chooses the job and its run, `gathering` turns answers into the
records of `figures`, `hints` judges them, `text` and `document` show them. All are pure; `asking` asks in
the right order, `prometheus` queries the server.
"""
