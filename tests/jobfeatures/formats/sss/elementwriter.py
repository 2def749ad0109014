"""A job as elements, one by one: what `writerecords`, which makes text field by field, is compared with."""

from jobfeatures.errors import ParseError
from jobfeatures.formats.sss.extensions import TYPE, state_word
from jobfeatures.formats.sss.values import BLANKS, MAX_LONG_CHARACTERS, MAX_NUMBER, checked_id
from jobfeatures.formats.sss.xml import NOT_XML, Element, format_element
from jobfeatures.records.model import UNLIMITED, JobState

TEXTS = {
    "Name": "name", "Project": "account", "User": "user", "Group": "group", "Queue": "queue",
    "Partition": "partition", "Executable": "executable", "Reservation": "reservation",
    "ResourceManagerType": "batch_system", "QualityOfService": "qos",
}  # fmt: skip
NUMBERS = {
    "SubmitTime": "submit_secs", "EligibleTime": "eligible_secs", "StartTime": "start_secs",
    "EndTime": "end_secs", "SuspendDuration": "suspended_secs", "CpuDuration": "used_cpu_secs",
    "Priority": "priority", "ExitCode": "exit_status",
}  # fmt: skip
EXTENDED_NUMBERS = (
    "uid", "gid", "exit_signal", "het_offset", "think_secs", "run_secs", "user_cpu_secs", "system_cpu_secs",
    "energy_joules",
)  # fmt: skip
EXTENDED_TEXTS = ("array_job_id", "array_task_id", "het_job_id", "workflow_id", "cluster", "state_word")


def element(tag, content, /, **attributes):
    return [] if content is None else [Element(tag, attributes, str(content))]


def extension(name, content):
    return element("Extension", content, name=name, type=TYPE)


def container(tag, *children):
    return [Element(tag, children=children)] if children else []


def write_job(record, lost):
    """Return the lines of a job, nothing for one that has no place."""

    def fitting(field, text):
        if not text:
            return None
        if text.strip(BLANKS) != text or len(text) > MAX_LONG_CHARACTERS or NOT_XML.search(text):
            return lost(field)
        return text

    def text(tag, field, **attributes):
        return element(tag, fitting(field, getattr(record, field)), **attributes)

    def whole(field):
        value = getattr(record, field)
        if not isinstance(value, int | float):
            return None
        signed = field in {"priority", "exit_status", "exit_signal"}
        if not -MAX_NUMBER <= value <= MAX_NUMBER or (value < 0 and not signed):
            return lost(field)
        if round(value) != value:
            lost(f"{field}: fractions")
        return round(value)

    def number(tag, field, **attributes):
        return element(tag, whole(field), **attributes)

    def starts():
        restarts = whole("restarts")
        if restarts == MAX_NUMBER:
            return element("StartCount", lost("restarts"))
        return element("StartCount", None if restarts is None else restarts + 1)

    def nodes():
        names = record.nodes
        if any("," in name or name.strip(BLANKS) != name or not name for name in names):
            return element("Node", lost("nodes"))
        if len(set(names)) < len(names):
            return element("Node", lost("nodes"))
        return element("Node", fitting("nodes", ",".join(names)), aggregation="List")

    def unlimited(name, limit):
        return element("ResourceLimit", "unlimited" if limit is UNLIMITED else None, name=name)

    if record.step is not None:
        lost("step")
        return ""
    try:
        checked_id(record.job_id)
    except ParseError:
        lost("job without a usable id")
        return ""
    for name, _ in record.more:
        lost(name)
    plain = JobState.FAILED if record.exit_status else JobState.COMPLETED
    said = {plain, JobState.PENDING, JobState.RUNNING, JobState.SUSPENDED}
    exact = record.state.value if state_word(record.state) and record.state not in said else None
    children = (
        *element("Id", record.job_id),
        *(each for tag, field in TEXTS.items() for each in text(tag, field)),
        *element("State", state_word(record.state)),
        *element("Interactive", record.is_interactive),
        *(each for tag, field in NUMBERS.items() for each in number(tag, field)),
        *starts(),
        *text("Dependency", "preceding_job_id", condition="OnExit"),
        *number("ResourceLimit", "cpu_limit_secs", name="CPUTime"),
        *unlimited("Duration", record.wall_limit_secs),
        *unlimited("MaxMemory", record.requested_memory_bytes),
        *unlimited("CPUTime", record.cpu_limit_secs),
        *(each for field in EXTENDED_NUMBERS for each in extension(field, whole(field))),
        *(
            each
            for field in EXTENDED_TEXTS
            for each in extension(field, fitting(field, getattr(record, field)))
        ),
        *extension("state", exact),
        *container(
            "Requested",
            *number("NodeCount", "requested_nodes"),
            *number("Processors", "requested_cpus"),
            *number("Resource", "requested_gpus", name="GPU"),
            *number("Memory", "requested_memory_bytes", units="B"),
            *number("Duration", "wall_limit_secs"),
        ),
        *container(
            "Delivered",
            *number("NodeCount", "total_nodes"),
            *nodes(),
            *number("Processors", "total_cpus"),
            *number("Resource", "total_gpus", name="GPU"),
            *number("Memory", "used_memory_bytes", metric="Max", units="B"),
        ),
    )
    return format_element(Element("Job", children=children), "  ")
