"""What one job asked for, used and wasted, found on a Prometheus server: `jobfeatures-exporter report`.

`queries` writes PromQL, `selecting` chooses the job and its run, `gathering` turns answers into the
records of `figures`, `advice` judges them, `text` and `asjson` show them. All are pure; `asking` asks in
the right order, `prometheus` queries the server.
"""
