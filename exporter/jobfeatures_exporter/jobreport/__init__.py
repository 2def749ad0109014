"""What one job asked for, used and wasted, found on a Prometheus server: `jobfeatures-exporter report`.

`queries` writes PromQL, `finding` chooses the job and its run, `gathering` puts answers together to the
records of `figures`, `hints` judges them, `text` and `document` show them. All that is pure; `asking` asks in
the right order, `prometheus` over the network.
"""
