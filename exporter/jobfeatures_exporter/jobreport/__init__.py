"""What one job asked for, used and wasted, found on a Prometheus server: `jobfeatures-exporter report`.

`queries` writes PromQL, `selecting` chooses the job and its run, `gathering` turns answers into what
`view.judge` judges, `text` and `asjson` show both. All are pure; `asking` asks in the right order,
`prometheus` queries the server.
"""
