"""Captured answers of v0.0.38 in the shapes of later versions: constructed, from the published schemas."""

from __future__ import annotations

import copy
from typing import Any

NEWER = ("v0.0.39", "v0.0.40", "v0.0.41", "v0.0.42", "v0.0.43")
_NUMBERS_OF_JOBS = (
    *("array_job_id", "array_task_id", "cpus", "eligible_time", "end_time", "het_job_id", "het_job_offset"),
    *("memory_per_cpu", "memory_per_node", "minimum_tmp_disk_per_node", "node_count", "priority"),
    *("start_time", "submit_time", "time_limit"),
)


def number(value: int | None, *, infinite: bool = False) -> dict[str, Any]:
    """Return a number as it is written from v0.0.39 on."""
    return {"set": value is not None and not infinite, "infinite": infinite, "number": value or 0}


def newer_job(job: dict[str, Any], version: str) -> dict[str, Any]:
    """Return a job of the queue in the shape of a later version."""
    found = copy.deepcopy(job)
    for name in _NUMBERS_OF_JOBS:
        found[name] = number(found[name])
    if job["time_limit"] is None:
        found["time_limit"] = number(None, infinite=True)
    if version >= "v0.0.40":
        found["job_state"] = [found["job_state"]]
    resources = found.get("job_resources")
    if version >= "v0.0.41" and resources and "nodes" in resources:
        found["job_resources"] = {
            "select_type": ["CORE", "MEMORY"],
            "nodes": {
                "count": len(resources["allocated_nodes"]),
                "select_type": ["AVAILABLE"],
                "list": resources["nodes"],
                "whole": False,
                "allocation": [
                    _allocation(place, each) for place, each in enumerate(resources["allocated_nodes"])
                ],
            },
            "cpus": job["cpus"],
            "threads_per_core": number(None),
        }
    return found


def _allocation(index: int, node: dict[str, Any]) -> dict[str, Any]:
    sockets = [
        {
            "index": int(name),
            "cores": [{"index": int(core), "status": ["ALLOCATED"]} for core in socket["cores"]],
        }
        for name, socket in node["sockets"].items()
    ]
    cores = sum(len(socket["cores"]) for socket in sockets)
    return {
        "index": index,
        "name": node["nodename"],
        "cpus": {"count": cores, "used": 0},
        "memory": {"used": 0, "allocated": node["memory_allocated"]},
        "sockets": sockets,
    }


def newer_document(document: dict[str, Any], key: str, records: list[Any], version: str) -> dict[str, Any]:
    """Return an answer with other records: the data first, then its meta."""
    plugin = {"type": "openapi/slurmctld", "name": "Slurm OpenAPI", "data_parser": f"data_parser/{version}"}
    slurm = {"version": {"major": "23", "micro": "1", "minor": "11"}, "release": "23.11.1"}
    return {key: records, "meta": {"plugin": plugin, "slurm": slurm}, "errors": [], "warnings": []}


def newer_node(node: dict[str, Any]) -> dict[str, Any]:
    """Return a node in the shape from v0.0.39 on."""
    found = {name: value for name, value in node.items() if name != "state_flags"}
    found["state"] = [node["state"].upper(), *node["state_flags"]]
    return {**found, "effective_cpus": node["cpus"]}


def newer_partition(partition: dict[str, Any]) -> dict[str, Any]:
    """Return a partition in the shape from v0.0.39 on."""
    return {
        "name": partition["name"],
        "nodes": {"allowed_allocation": "", "configured": partition["nodes"], "total": 2},
        "partition": {"state": [partition["state"]]},
    }


def newer_db_job(job: dict[str, Any], version: str) -> dict[str, Any]:
    """Return a job of accounting in the shape of a later version, with a signal and CPU time of its own."""
    found = copy.deepcopy(job)
    time = found["time"]
    time["limit"] = number(None, infinite=True) if time["limit"] is None else number(time["limit"])
    total = sum(step["time"]["total"]["seconds"] for step in job["steps"])
    time["total"] = {"seconds": total, "microseconds": 0}
    found["array"]["task_id"] = number(found["array"]["task_id"])
    found["het"]["job_offset"] = number(found["het"]["job_offset"])
    found["priority"] = number(found["priority"])
    found["required"] = {
        "CPUs": job["required"]["CPUs"],
        "memory_per_cpu": number(100),
        "memory_per_node": number(None),
    }
    found["reservation"] = {"id": 0, "name": ""}
    found["exit_code"] = _exit_code(found["exit_code"], version)
    if version >= "v0.0.40":
        found["state"] = {"current": [found["state"]["current"]], "reason": "None"}
    for step in found["steps"]:
        step["step"] = {"id": f"{job['job_id']}.{step['step']['id']}", "name": step["step"]["name"]}
        step["exit_code"] = _exit_code(step["exit_code"], version)
        step["time"]["start"], step["time"]["end"] = (number(step["time"][name]) for name in ("start", "end"))
        if version >= "v0.0.40":
            step["state"] = [step["state"]]
    return found


def _exit_code(code: dict[str, Any], version: str) -> dict[str, Any]:
    signal = code.get("signal", {}).get("signal_id")
    return {
        "status": [code["status"]] if version >= "v0.0.40" else code["status"],
        "return_code": number(code["return_code"]),
        "signal": {"id": number(signal), "name": "" if signal is None else "KILL"},
    }
