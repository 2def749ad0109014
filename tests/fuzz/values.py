"""What neither fixtures nor tests have as a text of its own: one or two of each form that its parser takes."""

from __future__ import annotations

import json

from jobfeatures.batch.controller.protocol import format_answer
from jobfeatures.batch.slurm.queue import QUEUE_FIELDS
from jobfeatures.formats.joblines import format_line
from jobfeatures.formats.sonar.joblog import write_records
from jobfeatures.joblogs.loggedjob import JobRecord
from jobfeatures.jobs.jobrecords import format_record
from jobfeatures.records.model import Job, JobKey, JobState, JobTable
from jobfeatures_exporter.sinks.message import Message
from jobfeatures_exporter.sinks.spool import format_spooled

SEPARATOR = b"zCaptured"
JOB = Job(
    key=JobKey("slurm", "12"),
    state=JobState.RUNNING,
    user="alice",
    uid=6001,
    nodes=("n1", "n2"),
    start_secs=1795,
)
RECORD = JobRecord(
    batch_system="slurm", job_id="12", user="alice", state=JobState.COMPLETED, submit_secs=1795
)
QUEUED = {
    **dict.fromkeys(QUEUE_FIELDS, "N/A"),
    "JobID": "6",
    "ArrayJobID": "6",
    "UserName": "alice",
    "UserID": "6001",
    "State": "RUNNING",
    "TimeLimit": "10:00",
    "NumCPUs": "4",
    "NumNodes": "1",
    "NodeList": "lab1",
    "StartTime": "1795266081",
    "EndTime": "1795266681",
    "tres-alloc": "cpu=4,mem=100M,node=1",
    "RestartCnt": "0",
    "Reservation": "",
    "Name": "fit",
}
TABLE = JobTable(source="slurm", jobs={JOB.key: JOB}, taken_at_secs=1795.0, complete=True)
VECTOR = json.dumps(
    {
        "status": "success",
        "data": {
            "resultType": "vector",
            "result": [{"metric": {"__name__": "up", "job": "n"}, "value": [1795266100.5, "1"]}],
        },
    }
).encode()
NODE_VECTOR = VECTOR.replace(b'"up", "job"', b'"batch_job_cpus", "jobid": "7", "instance": "n1", "job"')

SQUEUE = b"".join(QUEUED[name].encode() + SEPARATOR for name in QUEUE_FIELDS) + b"\n"
JOBS = "".join(write_records([RECORD], lambda *_: None)).encode()
CLUSTER = json.dumps(
    {
        "meta": {"producer": "sonar", "version": "0.17.0"},
        "data": {
            "type": "cluster",
            "attributes": {
                "time": "2026-11-21T12:00:00Z",
                "cluster": "c",
                "slurm": True,
                "partitions": [{"name": "batch", "nodes": ["n[1-4]"]}],
                "nodes": [{"names": ["n[1-4]"], "states": ["IDLE"]}],
            },
        },
    }
).encode()


STATUS = {
    "used_CPU": "7\n",
    "last_job_start": "1795266000",
    "can_postpone_last_job": "True",
    "priority_factor": "-3",
}
CLASSES = json.dumps(
    {"nodes": [{"name": "n1", "state": ["IDLE"], "cpus": 4}], "partitions": [{"name": "batch"}]}
).encode()
RESERVATION = (
    b"ReservationName=maint StartTime=1795257191 EndTime=1795260791 Duration=01:00:00 Nodes=n1 NodeCnt=1 CoreCnt=4 "
    b"Features=(null) PartitionName=(null) Flags=MAINT,SPEC_NODES,ALL_NODES TRES=cpu=4\n   Users=root Groups=(null) State=INACTIVE"
)

VALUES: dict[str, tuple[bytes, ...]] = {
    "jobfeatures_exporter.families.exposition:parse_accept": (b"a/b;q=0.5, */*", b"gzip;q=1"),
    "jobfeatures.batch.htcondor.schedds:parse_schedds": (
        b'[{"MyAddress": "<10.9.9.1:9618?sock=schedd>", "Name": "wn1.lab"}]',
    ),
    "jobfeatures.batch.pbs.cards:parse_assigned": (b'{"device_names": ["nvidia0", "mic1"]}',),
    "jobfeatures.batch.slurm.steps:parse_setup": (
        b"ProctrackType           = proctrack/cgroup\nSlurmdSpoolDir          = /var/spool/slurmd\n",
    ),
    "jobfeatures.client:parse_signal": (b"USR1@300", b"10@300"),
    "jobfeatures.client:parse_hook": (b"/usr/bin/checkpoint@300",),
    "jobfeatures_exporter.jobreport.jobstats:decode_summary": (
        (
            b'{"nodes": {"n1": {"total_memory": 4096, "used_memory": 1024, "total_time": 5.5, "cpus": 2, "gpu_total_memory":'
            b' {"0": 80}, "gpu_used_memory": {"0": 7}, "gpu_utilization": {"0": 50.5}}}, "total_time": 100, "gpus": 1}'
        ),
    ),
    "jobfeatures.batch.slurm.json.cluster:parse_json_diag": (
        (b'{"statistics": {"server_thread_count": 3, "dbd_agent_queue_size": {"set": true, "number": 5}, "jobs_submitted": 7,'
        b' "schedule_cycle_total": 10, "schedule_cycle_last": 500, "rpcs_by_message_type": [{"message_type": "REQUEST_PING",'
        b' "count": 2, "total_time": 1000}], "rpcs_by_user": [{"user": "alice", "count": 4, "total_time": 5}]}}'),
    ),
    "jobfeatures.batch.slurm.json.cluster:parse_json_licences": (
        b'{"licenses": [{"LicenseName": "x", "Total": 5, "Used": 1, "Free": 4}, {"Total": 1}]}',
    ),
    "jobfeatures.batch.controller.protocol:parse_answer": (format_answer(TABLE).encode(),),
    "jobfeatures.batch.controller.protocol:parse_clock": (b"1795266100.250",),
    "jobfeatures_exporter.sampling.processes.openfiles:parse_open_limit": (
        (b"Limit                     Soft Limit           Hard Limit           Units\n"
        b"Max open files            1024                 524288               files\n"),
    ),
    "jobfeatures.analysis.schedule.shares:parse_words": (b"word", b"other, word"),
    "jobfeatures.batch.controller.protocol:parse_token": (b"aB3_-" * 8 + b"xyz\n",),
    "jobfeatures.batch.lsf.jobs:parse_gpus": (b"n1:0,1;lab1:0,1,0,1", b"lab1:2"),
    "jobfeatures.batch.slurm.json.cluster:parse_json_cluster": (CLASSES,),
    "jobfeatures.batch.slurm.node:parse_clock": (b"last_update_time=1795266100, records=3\nNodeName=n1 ",),
    "jobfeatures.batch.slurm.node:parse_maintenance": (RESERVATION.replace(b"\n  ", b""),),
    "jobfeatures.batch.slurm.refused:parse_refused": (SQUEUE,),
    "jobfeatures.batch.slurm.queue:parse_queue": (SQUEUE,),
    "jobfeatures.commands.logarguments:parse_zone": (b"UTC", b"Europe/Zurich"),
    "jobfeatures.commands.report:parse_values": (
        json.dumps({**STATUS, "last_job_start": "now", "used_CPU": "none", "first_exp_job_end": "+1h"}).encode(),
        b'{"can_postpone_last_job": "True"}',
    ),
    "jobfeatures.formats.joblines:parse_line": (
        format_line(RECORD).encode(),
    ),
    "jobfeatures.formats.joblines:read_records": (format_line(RECORD).encode() + b"\n",),
    "jobfeatures.formats.sonar.joblog:read_records": (JOBS,),
    "jobfeatures.formats.sonar.joblog:recognise": (JOBS,),
    "jobfeatures_exporter.ingest.parse:parse_envelope": (JOBS, CLUSTER),
    "jobfeatures.formats.swf.check:check_log": (
        (b"; Version: 2.2\n; UnixStartTime: 843480031\n; TimeZoneString: Europe/Berlin\n"
        b"; StartTime: Mon Sep 23 14:00:31 CEST 1996\n; EndTime:   Mon Sep 23 14:02:46 CEST 1996\n"
        b"1 0 5 60 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 -1 -1\n"),
    ),
    "jobfeatures.formats.swf.records:read_records": (
        (b"; UnixStartTime: 843480031\n1 0 5 60 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 -1 -1\n"
        b"; Note: later\n; UnixStartTime: 843480031\n2 9 5 60 4 -1 -1 4 60 -1 1 1 1 -1 1 -1 -1 -1\n"),
    ),
    "jobfeatures.formats.sss.requests.matching:parse_nodes": (b'[{"Node": "n1", "Processors": 4}]', b'{"Node": "n1"}\n{"Node": "n2"}'),
    "jobfeatures.jobs.jobrecords:parse_record": (format_record(JOB, reported_at_secs=1795.25).encode(),),
    "jobfeatures.system.basiccredentials:parse_basic": (b"Basic YWxpY2U6c2VjcmV0", b"basic YTo="),
    "jobfeatures.publish.tokens:parse_token": (b"0123456789abcdef" * 3 + b"\n",),
    "jobfeatures.records.series:parse_vector": (VECTOR, NODE_VECTOR),
    "jobfeatures.publish.site:parse_cpu_model": (b"processor\t: 0\nmodel name\t: AMD EPYC 7763 64-Core Processor\n",),
    "jobfeatures.system.watch:parse_mount_id": (b"pos:\t0\nflags:\t0100000\nmnt_id:\t22\n",),
    "jobfeatures.status.jobstatus:parse_status_body": (b"used_CPU=7\nlast_job_start=1795266000\n", b'{"used_CPU": 7, "last_job_start": null}'),
    "jobfeatures.status.jobstatus:parse_job_status": (json.dumps(STATUS).encode(), b'{"used_CPU": "0"}'),
    "jobfeatures_exporter.sampling.parsers.cgroupfiles:parse_throttled": (
        b"usage_usec 7\nnr_periods 3\nnr_throttled 1\nthrottled_usec 40\n",
        b"nr_periods 3\nnr_throttled 1\nthrottled_time 40000\n",
    ),
    "jobfeatures_exporter.sampling.parsers.counterfiles:parse_process_io": (
        b"rchar: 9\nwchar: 8\nsyscr: 7\nsyscw: 6\nread_bytes: 5\nwrite_bytes: 4\ncancelled_write_bytes: 3\n",
    ),
    "jobfeatures_exporter.sampling.gpu.drm:parse_uevent": (
        b"DRIVER=amdgpu\nPCI_CLASS=38000\nPCI_ID=1002:740F\nPCI_SLOT_NAME=0000:03:00.0\n",
    ),
    "jobfeatures_exporter.sampling.host.software:parse_cuda_versions": (b'{"cuda": {"name": "CUDA SDK", "version": "12.4.1"}}',),
    "jobfeatures_exporter.sampling.processes.members:parse_process_groups": (b"Name:\twork\nUmask:\t0022\nGroups:\t6001 65400 \nNStgid:\t1\n",),
    "jobfeatures_exporter.sampling.host.sysinfo:parse_cpuinfo_layout": (
        b"".join(
            b"processor\t: %d\nmodel name\t: AMD EPYC\nphysical id\t: %d\nsiblings\t: 2\ncore id\t\t: %d\n\n" % (n, n // 2, n % 2)
            for n in range(4)
        ),
    ),
    "jobfeatures_exporter.sinks.spool:parse_spooled": (
        format_spooled(Message(kind="sample", cluster="c", node="n1", made_at_secs=1795.5, body=b'{"a": 1}')),
        format_spooled(Message(kind="jobs", cluster="c", node="n1", made_at_secs=1795.5, body=b"")),
    ),
}  # fmt: skip
