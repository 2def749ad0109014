"""What documents tell and the page does not show: the list here is whole and true."""

from __future__ import annotations

import copy
import re

from jobfeatures.formats.sonar.fields import TYPES, FieldType

# What the page does not show, and why.
UNSHOWN = {
    # inventory; the release is shown
    "SysinfoAttributes": "time os_name numa_nodes distances topo_svg topo_text software",
    "SysinfoSoftwareVersion": "key name version",
    # constants, or in the sample
    "SysinfoGpuCard": "index power_limit max_power_limit min_power_limit max_ce_clock max_memory_clock",
    "SampleGpu": "compute_mode memory_util",  # a setting; follows from bytes
    "SampleDisk": "major minor",  # shown by name
    # of single processes
    "SampleProcess": "cmd pid ppid in_container cpu_avg cpu_util virtual_memory",
    "SampleProcessGpu": "index gpu_memory_util",  # shown by uuid, in bytes
    "JobsAttributes": "time",  # order only
    # requests, and accounting: series are of jobs that run
    "SlurmJob": "distribution requested_resources gres_detail minimum_cpus_per_node priority reservation "
    "het_job_offset submit_time suspend_time end_time exit_code",
    "SacctData": "MinCPU AveCPU AveDiskRead AveDiskWrite AveRSS AveVMSize ElapsedRaw SystemCPU UserCPU "
    "MaxRSS MaxVMSize",
    "ClusterAttributes": "time",  # order only
}
NOTED = ("MetadataObject", "KVPair", "ErrorObject")  # how documents came to be, not what they tell
VALUES = {
    FieldType.STRING: "7",
    FieldType.NONEMPTY: "7",
    FieldType.HOSTNAME: "c1-7",
    FieldType.NODE_RANGE: "c1-7",
    FieldType.FLOAT: 7.0,
    FieldType.BOOL: True,
}
OTHERS = {
    FieldType.STRING: "8",
    FieldType.NONEMPTY: "8",
    FieldType.HOSTNAME: "c1-9",
    FieldType.NODE_RANGE: "c1-9",
    FieldType.FLOAT: 8.0,
    FieldType.BOOL: False,
}
# What documents need to belong together, or must say in certain words.
SET = {
    "cluster": "hpc.example.org", "job_id": 12, "job": 12, "epoch": 0, "uuid": "GPU-1", "job_state": "RUNNING",
    "user": "alice", "job_step": "", "rolledup": 1, "stats": list(range(1, 12)), "AllocTRES": "cpu=2",
    "requested_resources": "gres/gpu=2", "allocated_resources": "cpu=2,gres/gpu=2",
}  # fmt: skip
CHANGED = {
    "cluster": "other.example.org", "uuid": "GPU-2", "job_state": "FAILED", "rolledup": 3,
    "stats": list(range(2, 13)), "AllocTRES": "cpu=4", "requested_resources": "gres/gpu=4",
    "allocated_resources": "cpu=4,gres/gpu=4",
}  # fmt: skip


def of_type(name, make, values, given):
    """Return an object with every field of a type."""
    return {each.name: of_field(each, make, values, given) for each in TYPES[name]}


def of_field(field, make, values, given):
    if field.name in given:
        return given[field.name]
    if field.of:
        value = of_type(field.of, make, values, given)
    elif field.type in (FieldType.TIMESTAMP, FieldType.OPTIONAL_TIMESTAMP):
        value = make.stamp(600 if field.name != "time" else 30 if values is VALUES else 20)
        value = value if values is VALUES or field.name == "time" else make.stamp(500)
    else:
        value = values.get(field.type, 7 if values is VALUES else 8)
    for _ in range(field.dimensions):
        value = [value]
    return value


def places(name, path=()):
    """Yield every field of a type and of those below it, with the way to it."""
    for each in TYPES[name]:
        if each.of not in NOTED:
            yield (name, each, (*path, each.name))
        if each.of and each.of not in NOTED:
            below = (*path, each.name, *([0] * each.dimensions))
            yield from places(each.of, below)


def page_of(make, documents):
    site = make.Site()
    for tag, attributes in documents.items():
        assert site.send(make.envelope(tag, **attributes)).faults == ()
    return re.sub(r"(?m)^batch_sonar_d.*$", "", site.text())


def changed(attributes, path, value):
    made = copy.deepcopy(attributes)
    place = made
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    return made


KINDS = {"sysinfo": "Sysinfo", "sample": "Sample", "job": "Jobs", "cluster": "Cluster"}


def situations(make):
    """Yield documents that belong together, by tag: what one does not say may be taken from another."""
    whole = {tag: of_type(f"{name}Attributes", make, VALUES, SET) for tag, name in KINDS.items()}
    yield whole
    for tag, attributes in whole.items():
        yield {tag: attributes}
    job = whole["job"]["slurm_jobs"][0]
    for other in (
        {"job_state": "PENDING"},
        {"job_state": "COMPLETED"},
        {"allocated_resources": ""},
        {"allocated_resources": "", "sacct": {}},
        {"allocated_resources": "", "sacct": {}, "nodes": [], "job_state": "PENDING"},
    ):
        yield {**whole, "job": {**whole["job"], "slurm_jobs": [{**job, **other}]}}


def unshown(make):
    """Return the fields that change nothing on the page in any situation, with whatever value."""
    found = {(name, field.name) for kind in KINDS.values() for name, field, _ in places(f"{kind}Attributes")}
    for documents in situations(make):
        plain = page_of(make, documents)
        for tag, attributes in documents.items():
            for name, field, path in places(f"{KINDS[tag]}Attributes"):
                other = [] if field.of and field.dimensions else of_field(field, make, OTHERS, CHANGED)
                if (name, field.name) in found and page_of(
                    make, {**documents, tag: changed(attributes, path, other)}
                ) != plain:
                    found.remove((name, field.name))
    return found


def test_all_but_what_is_listed_is_shown(make):
    listed = {(kind, name) for kind, names in UNSHOWN.items() for name in names.split()}
    assert listed == unshown(make)
