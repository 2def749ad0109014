"""The exporters themselves: do they answer, what fails, how old is what they know, what do they cost."""

from __future__ import annotations

from grafana.board import Placed, Row, cluster_variable, dashboard, line, node_link, variable
from grafana.panels import (
    ANY_IS_BAD,
    ANY_IS_WORTH_A_LOOK,
    GREEN,
    ORANGE,
    RED,
    Json,
    query,
    stat,
    steps,
    timeseries,
)
from grafana.tables import Column, Label, table

RATE = "$__rate_interval"
E = 'cluster=~"$cluster",job=~"$job",instance=~"$instance"'
NODE = "cluster, job, instance"
OLD = steps(GREEN, (300, ORANGE), (900, RED))


def board() -> Json:
    """Return the dashboard."""
    build = 'batch_exporter_build_info{cluster=~"$cluster"'
    return dashboard(
        "health",
        "Batch: exporter health",
        "Whether the exporters answer, what fails in them, how old what they know is, what they leave out, and what they "
        "cost.",
        ["health"],
        [
            cluster_variable(),
            variable("job", "Scrape job", f"{build}}}", "Prometheus' name for what is scraped together."),
            variable("instance", "Exporter", f'{build},job=~"$job"}}', "Exporters, by the address scraped."),
        ],
        [
            Row("Now", _now()),
            Row("Exporters", _exporters()),
            Row("Collectors and scrapes", _collectors()),
            Row("Batch sources", _sources()),
            Row("Features and job status", _features()),
            Row("Documents sent", _sinks()),
            Row("Listeners and settings", _web()),
            Row("What it costs", _costs()),
        ],
    )


def _now() -> list[Placed]:
    return line(
        stat("Up", "Exporters that answered the latest scrape, of all.", f"sum(up{{{E}}}) / count(up{{{E}}})", "percentunit",
             thresholds=steps(RED, (0.99, ORANGE), (1, GREEN)), decimals=0),
        stat("Down", "Exporters that did not answer.", f"sum(1 - up{{{E}}})", thresholds=ANY_IS_BAD),
        stat("Collectors failing", "Collectors whose series are missing, over all exporters.",
             f"sum(batch_exporter_failed_collectors{{{E}}})", thresholds=ANY_IS_BAD),
        stat("Sources silent", "Batch sources that did not answer the latest question.",
             f"sum(1 - batch_exporter_source_up{{{E}}})", thresholds=ANY_IS_BAD, empty="no source"),
        stat("Oldest answer", "Age of the oldest answer of a batch system in use.",
             f"max(batch_exporter_source_age_seconds{{{E}}})", "s", thresholds=OLD, empty="no source"),
        stat("Series left out", "Series that the latest pages left out to stay within their budget.",
             f"sum(batch_exporter_series_over_budget{{{E}}})", thresholds=ANY_IS_WORTH_A_LOOK),
        stat("Spooled", "Documents that wait for a sink.", f"sum(batch_exporter_sink_spooled{{{E}}})",
             thresholds=steps(GREEN, (100, ORANGE)), empty="none is sent"),
        stat("Versions", "How many different versions run.",
             f"count(count by (version) (batch_exporter_build_info{{{E}}}))", thresholds=steps(GREEN, (2, ORANGE))),
        height=4,
    )  # fmt: skip


def _exporters() -> list[Placed]:
    yes_no = {
        "type": "value",
        "options": {"0": {"text": "down", "color": RED}, "1": {"text": "up", "color": GREEN}},
    }
    return line(
        table(
            "Exporters", "Every exporter: its version, and what is wrong with it: failing collectors, silent batch sources.",
            [
                Label("instance", "Exporter", (node_link(),), 140), Label("job", "Scrape job", width=140), Label("version", "Version"),
                Label("python", "Python"), Label("cluster", "Cluster", width=90),
            ],
            [
                Column("Build", f"max by ({NODE}, version, python) (batch_exporter_build_info{{{E}}})", hidden=True),
                Column("State", f"max by ({NODE}) (up{{{E}}})", thresholds=steps(RED, (1, GREEN)), mappings=(yes_no,)),
                Column("Runs for", f"time() - max by ({NODE}) (process_start_time_seconds{{{E}}})", "s"),
                Column("Series", f"max by ({NODE}) (scrape_samples_scraped{{{E}}})"),
                Column("Scrape took", f"max by ({NODE}) (scrape_duration_seconds{{{E}}})", "s",
                       steps("text", (1, ORANGE), (5, RED))),
                Column("Failing", f"max by ({NODE}) (batch_exporter_failed_collectors{{{E}}})",
                       thresholds=steps("text", (1, RED))),
                Column("Silent", f"sum by ({NODE}) (1 - batch_exporter_source_up{{{E}}})",
                       thresholds=steps("text", (1, RED))),
                Column("Memory", f"max by ({NODE}) (process_resident_memory_bytes{{{E}}})", "bytes"),
            ],
            sort="State", descending=False, empty="no exporter is scraped",
        ),
    )  # fmt: skip


def _collectors() -> list[Placed]:
    return [
        *line(
            timeseries("Scrapes", "How long Prometheus waited: the slowest, and the mean of all.",
                       [
                           query(f"max(scrape_duration_seconds{{{E}}})", "slowest"),
                           query(f"avg(scrape_duration_seconds{{{E}}})", "mean"),
                       ], "s"),
            timeseries("Collectors", "How long all collectors took, and each that is slow or fails, on the exporter where it took longest.",
                       [
                           query(f"max(batch_exporter_collectors_duration_seconds{{{E}}})", "all"),
                           query(f"topk(6, max by (collector) (batch_exporter_collector_duration_seconds{{{E}}}))",
                                 "{{collector}}"),
                       ], "s"),
            timeseries("Failing", "Exporters in which a collector or another exporter's names fail.",
                       [
                           query(f"count by (collector) (batch_exporter_collector_success{{{E}}} == 0) or "
                                 f"label_replace(sum(batch_exporter_failed_collectors{{{E}}}) == 0, "
                                 '"collector", "none", "", "")', "{{collector}}"),
                           query(f"sum by (profile) (1 - batch_exporter_profile_success{{{E}}})", "names of {{profile}}"),
                       ], "none", steps_drawn=True),
        ),
        *line(
            timeseries("Looks at the node", "How long the latest look took, and how long ago it was.",
                       [
                           query(f"max(batch_exporter_sample_duration_seconds{{{E}}})", "slowest look"),
                           query(f"max(time() - batch_node_sample_timestamp_seconds{{{E}}})", "oldest look's age"),
                       ], "s", empty="no node is scraped"),
            timeseries("Readings that could not be made", "All in an hour, and since the start by what was to be read.",
                       [
                           query(f"sum(increase(batch_node_unreadable_readings_total{{{E}}}[1h]))", "in an hour"),
                           query(f"topk(5, sum by (kind) (batch_node_unreadable_readings_by_kind_total{{{E}}}))", "{{kind}}"),
                       ], "none", empty="none"),
            timeseries("Series", "Series of all pages, and those left out to stay within the budget.",
                       [
                           query(f"sum(scrape_samples_scraped{{{E}}})", "shown"),
                           query(f"sum(batch_exporter_series_over_budget{{{E}}})", "left out"),
                           query(f"sum(increase(batch_exporter_series_dropped_total{{{E}}}[1h]))", "left out in an hour"),
                       ], "none"),
        ),
    ]  # fmt: skip


def _sources() -> list[Placed]:
    none = "no source"
    return [
        *line(
            timeseries("Age of answers", "Of the table in use, by source; the oldest of all exporters.",
                       [query(f"max by (source) (batch_exporter_source_age_seconds{{{E}}})", "{{source}}")], "s",
                       thresholds=steps("transparent", (900, RED)), empty=none),
            timeseries("Questions not answered", "In an hour, by source.",
                       [query(f"sum by (source) (increase(batch_exporter_source_failures_total{{{E}}}[1h]))", "{{source}}")],
                       "none", empty=none),
            timeseries("Records skipped as bad", "In an hour, by source.",
                       [query(f"sum by (source) (increase(batch_exporter_source_rejected_records_total{{{E}}}[1h]))",
                              "{{source}}")], "none", empty=none),
            timeseries("Jobs known", "Jobs in the tables in use, and exporters whose table may leave some out.",
                       [
                           query(f"sum by (source) (batch_exporter_source_jobs{{{E}}})", "{{source}}"),
                           query(f"sum(1 - batch_exporter_source_complete{{{E}}})", "tables that are not complete"),
                       ], "none", empty=none),
        ),
    ]  # fmt: skip


def _features() -> list[Placed]:
    return line(
        timeseries("Jobs with features", "Jobs that have a directory, beside the jobs that are seen.",
                   [
                       query(f"sum(batch_features_published_jobs{{{E}}})", "with features"),
                       query(f"count(batch_job_info{{{E}}})", "seen"),
                   ], "none", empty="features are not published"),
        timeseries("Directories not written", "That could not be written or removed, in an hour.",
                   [query(f"sum by (instance) (increase(batch_features_write_failures_total{{{E}}}[1h]))", "{{instance}}")],
                   "none", empty="features are not published"),
        timeseries("Features over HTTP", "Answers a second by status.",
                   [query(f"sum by (status) (rate(batch_features_http_answers_total{{{E}}}[{RATE}]))", "{{status}}")],
                   "reqps", empty="nobody asked"),
        timeseries("JOBSTATUS refused", "Sets that broke the rules: all in an hour, and since the start by reason.",
                   [
                       query(f"sum(increase(batch_jobstatus_violations_total{{{E}}}[1h]))", "in an hour"),
                       query(f"topk(5, sum by (reason) (batch_jobstatus_violations_by_reason_total{{{E}}}))", "{{reason}}"),
                   ], "none", empty="none"),
    )  # fmt: skip


def _sinks() -> list[Placed]:
    none = "no document is sent"
    return line(
        timeseries("Sent", "Documents that each sink took, a second.",
                   [query(f"sum by (sink, type) (rate(batch_exporter_sink_sent_total{{{E}}}[{RATE}]))", "{{sink}}: {{type}}")],
                   "cps", empty=none),
        timeseries("Waiting", "Documents that wait for each sink.",
                   [query(f"sum by (sink) (batch_exporter_sink_spooled{{{E}}})", "{{sink}}")], "none", empty=none),
        timeseries("Lost", "Documents lost in an hour, by reason; attempts that failed, after which they are kept.",
                   [query(f"sum by (sink, reason) (increase(batch_exporter_sink_dropped_total{{{E}}}[1h]))",
                          "{{sink}}: {{reason}}"),
                    query(f"sum by (sink) (increase(batch_exporter_sink_failed_total{{{E}}}[1h]))", "{{sink}}: attempts")],
                   "none", empty=none),
        timeseries("Since the last one", "Time since each sink last took a document; the longest of all exporters.",
                   [query(f"max by (sink) (batch_exporter_sink_last_success_age_seconds{{{E}}})", "{{sink}}")], "s",
                   empty=none),
    )  # fmt: skip


def _web() -> list[Placed]:
    return line(
        timeseries("Requests", "Answers a second, by listener and HTTP status.",
                   [query(f"sum by (listener, code) (rate(batch_exporter_web_requests_total{{{E}}}[{RATE}]))",
                          "{{listener}}: {{code}}")], "reqps"),
        timeseries("Requests refused", "In an hour by listener, and since the start by reason: over a limit, without a password, too large.",
                   [
                       query(f"sum by (listener) (increase(batch_exporter_web_rejected_total{{{E}}}[1h]))", "{{listener}}, in an hour"),
                       query(f"topk(4, sum by (listener, reason) (batch_exporter_web_rejected_by_reason_total{{{E}}}))",
                             "{{listener}}: {{reason}}"),
                   ], "none", empty="none"),
        timeseries("Connections", "That are open, by listener.",
                   [query(f"sum by (listener) (batch_exporter_web_connections{{{E}}})", "{{listener}}")], "none"),
        timeseries("Settings refused", "Exporters whose settings, web settings or certificates were bad when read last: older "
                   "ones are in use.",
                   [
                       query(f"sum(1 - batch_exporter_config_last_reload_successful{{{E}}})", "settings"),
                       query(f"sum(1 - batch_exporter_web_config_last_reload_successful{{{E}}})", "web settings"),
                   ], "none", steps_drawn=True, empty="none were read anew"),
    )  # fmt: skip


def _costs() -> list[Placed]:
    return line(
        timeseries("CPU", "CPU time of each exporter in a second; the ten with most.",
                   [query(f"topk(10, rate(process_cpu_seconds_total{{{E}}}[{RATE}]))", "{{instance}}")], "percentunit"),
        timeseries("Memory", "Resident memory of each exporter; the ten with most.",
                   [query(f"topk(10, process_resident_memory_bytes{{{E}}})", "{{instance}}")], "bytes"),
        timeseries("Open files", "Open files of each exporter, of as many as it may open; the ten with most.",
                   [query(f"topk(10, process_open_fds{{{E}}} / process_max_fds{{{E}}})", "{{instance}}")], "percentunit"),
    )  # fmt: skip
