"""PBS hook: publishes a job's features when it starts, tells its tasks, and removes them when it ends.

Events: execjob_begin, execjob_launch, execjob_end. It runs as root, in PBS's
own Python (3.6 or newer), once per job and host; the launch event once per task.
A hook that fails requeues its job and one that hangs delays it: this one accepts
the event whatever happens, and waits only for a limited time. README.md describes
how to install and configure it.
"""

import json
import os
import pwd
import re
import signal
import subprocess
import time

import pbs

COMMANDS = (
    "/opt/jobfeatures-exporter/bin/jobfeatures",
    "/usr/local/bin/jobfeatures",
    "/usr/bin/jobfeatures",
)
SETTINGS = {"command": None, "timeout_secs": 2, "features_root": "/run/jobfeatures", "environment": {}}
VARIABLES = tuple(
    name + suffix for suffix in ("", "_URL") for name in ("MACHINEFEATURES", "JOBFEATURES", "JOBSTATUS")
)
NO_PROXY = ("no_proxy", "NO_PROXY")  # programs read either, and some only the first that is set
MAX_CHARACTERS = 100000  # of a variable for the command; the kernel allows 131072 bytes
MAX_REQUEST_CHARACTERS = 65536  # of a variable in a request to the daemon
MAX_EXPORTS_BYTES = 4096


def read_settings():
    """Return the defaults, overridden by the hook's configuration file if it has one."""
    name = getattr(pbs, "hook_config_filename", None) or os.environ.get("PBS_HOOK_CONFIG_FILE")
    settings = dict(SETTINGS)
    if name and os.path.exists(name):
        with open(name) as file:
            settings.update(json.load(file))
    return settings


def describe(job):
    """Return the environment variables that describe a job to the command."""
    limits = job.Resource_List
    user = text(getattr(job, "euser", None)) or text(job.Job_Owner).partition("@")[0]
    values = {
        "USER": user,
        "UID": uid_of(user),
        "JOB_NAME": job.Job_Name,
        "QUEUE": getattr(job.queue, "name", job.queue),
        "ACCOUNT": job.Account_Name,
        "EXEC_HOST": getattr(job, "exec_host2", None) or job.exec_host,
        "EXEC_VNODE": job.exec_vnode,
        "WALLTIME": limits["walltime"],
        "CPUT": limits["cput"],
        "MEM": limits["mem"],
        "PMEM": limits["pmem"],
        "RUN_COUNT": job.run_count,
        "START": int(job.stime or time.time()),
    }
    variables = {"PBS_HOOK_" + name: text(value) for name, value in values.items()}
    return {name: value for name, value in variables.items() if value and len(value) <= MAX_CHARACTERS}


def text(value):
    """Return a value as text, without NUL, which no variable can contain."""
    return "" if value is None else str(value).replace("\0", "")


def uid_of(user):
    """Return a user's uid, None if this machine does not know it."""
    try:
        return pwd.getpwnam(user).pw_uid
    except KeyError:
        return None


def hand_over(action, job_id, variables, settings):
    """Have the exporter's daemon do the work; return False if no daemon is running, or it has died.

    The request is a file of NUL-terminated fields; the daemon removes it once the work is done.
    """
    root = str(settings["features_root"])
    intake, name = os.path.join(root, "intake"), directory_name(job_id)
    request = os.path.join(intake, name + "." + action)
    fields = ["jobfeatures 1", action, "pbs", "PBS_JOBID=" + job_id]
    fields += [
        variable + "=" + value
        for variable, value in variables.items()
        if len(value) <= MAX_REQUEST_CHARACTERS
    ]
    try:
        if "/" in name or os.lstat(intake).st_uid != os.geteuid() or not is_alive(intake):
            return False
        with open(request, "wb") as file:
            file.write("".join(each + "\0" for each in [*fields, "end"]).encode("utf-8", "surrogateescape"))
        pause, end = 0.002, time.monotonic() + float(settings["timeout_secs"])
        while os.path.exists(request):
            if not is_alive(intake):
                return False
            if time.monotonic() > end:
                leave_failure(action, settings, "daemon")
                log("job " + job_id + ": " + action + " is left to the daemon, which has not done it in time")
                return True
            time.sleep(pause)
            pause = min(0.1, 2 * pause)
    except (OSError, ValueError):
        return False
    if action == "publish" and not os.path.isdir(os.path.join(root, "jobfeatures", name)):
        log("job " + job_id + ": the daemon could not publish its features: see the daemon's log")
    return True


def is_alive(intake):
    """Return whether the daemon serves requests: the time that it has promised is not over, and it runs."""
    with open(os.path.join(intake, "alive")) as file:
        until, pid = file.read(64).split()
    return int(until) > time.time() and os.path.isdir(f"/proc/{int(pid)}")


def directory_name(job_id):
    """Return the name of the folder of a job's features."""
    return "pbs-" + job_id.partition(".")[0].replace("[", "%5B").replace("]", "%5D")


def run(action, job_id, variables, settings):
    """Hand the work over, or run the command with a time limit; its output goes into pbs_mom's log."""
    if hand_over(action, job_id, variables, settings):
        return
    command = settings["command"] or next((name for name in COMMANDS if os.access(name, os.X_OK)), None)
    if command is None:
        leave_failure(action, settings, "command")
        raise RuntimeError("no command jobfeatures")
    environment = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C"}
    environment.update({name: str(value) for name, value in settings["environment"].items()})
    environment.update(variables)
    environment["PBS_JOBID"] = job_id
    # pbs_mom's Python may take only ASCII: its locale is C
    environment = {name: value.encode("utf-8", "surrogateescape") for name, value in environment.items()}
    try:
        process = subprocess.Popen(
            [command, action, "--batch", "pbs", "--strict"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            env=environment,
            start_new_session=True,
        )
    except OSError:
        leave_failure(action, settings, "command")
        raise
    try:
        _, output = process.communicate(timeout=float(settings["timeout_secs"]))
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)  # do not wait for its end: it may be stuck in the kernel
        leave_failure(action, settings, "timeout")
        raise RuntimeError(f"{action} took longer than {settings['timeout_secs']} s") from None
    output = output.decode("utf-8", "replace").strip()[:1000]
    reasons = re.findall(" reason=([a-z]+)", output)
    for reason in reasons:
        leave_failure(action, settings, reason)
    if process.returncode:
        log(f"job {job_id}: {action} failed ({process.returncode}): {printable(output)}")
        if not reasons:
            leave_failure(action, settings, "other")
    elif output:
        log(f"job {job_id}: {printable(output)}", pbs.LOG_WARNING if reasons else pbs.LOG_DEBUG)


def leave_failure(action, settings, reason):
    """Count a failure: append a byte to a file in the daemon's folder, if there is one."""
    folder = os.path.join(str(settings["features_root"]), "failures")
    try:
        if os.stat(folder).st_uid == os.geteuid():
            known = os.path.exists(os.path.join(folder, action + "." + reason))
            with open(os.path.join(folder, action + "." + (reason if known else "other")), "ab") as file:
                file.write(b".")
    except OSError:
        pass  # the failure is in the log, too


def read_exports(job_id, settings):
    """Return the job's prepared variables by name; without them, the paths that its features will have."""
    name = directory_name(job_id)
    if not re.match(r"pbs-[0-9]+(%5B[0-9]+%5D)?\Z", name):
        return {}
    found = {}
    try:
        with open(os.path.join(settings["features_root"], "exports", name), "rb") as file:
            lines = file.read(MAX_EXPORTS_BYTES).decode("ascii", "replace").split("\n")
    except OSError:
        root = str(settings["features_root"])
        places = {"MACHINEFEATURES": "machinefeatures", "JOBFEATURES": "jobfeatures/" + name}
        places["JOBSTATUS"] = "jobstatus/" + name
        return {variable: os.path.join(root, place) for variable, place in places.items()}
    for line in lines:
        variable, equals, value = line.partition("=")
        variable = variable.partition(" ")[2] if variable.startswith("export ") else ""
        if equals and variable in VARIABLES + NO_PROXY and value.isprintable():
            found[variable] = value
    return found


def tell(environment, exports):
    """Set a task's variables; the hosts that the job asks without a proxy stay, before ours.

    In values of PBS's environment a comma has a backslash: without it, it ends the variable.
    """
    old = {name: environment[name].replace("\\,", ",") for name in NO_PROXY if environment.get(name)}
    for name, ours in exports.items():
        hosts = old.get(name) or next(iter(old.values()), "") if name in NO_PROXY else ""
        is_among = hosts == "*" or "," + ours + "," in "," + hosts + ","
        value = ",".join(filter(None, (hosts, "" if is_among else ours)))
        environment[name] = value.replace(",", "\\,")


def printable(foreign):
    """Return foreign text made safe for a log."""
    return "".join(each if each.isprintable() else " " for each in foreign)


def log(message, level=pbs.LOG_WARNING):
    """Write to pbs_mom's log."""
    pbs.logmsg(level, "jobfeatures: " + message)


def main():
    """Handle the event."""
    event = pbs.event()
    try:
        settings = read_settings()
        job_id = str(event.job.id)
        if event.type == pbs.EXECJOB_BEGIN:
            run("publish", job_id, describe(event.job), settings)
        elif event.type == pbs.EXECJOB_LAUNCH:
            tell(event.env, read_exports(job_id, settings))
        elif event.type == pbs.EXECJOB_END:
            run("remove", job_id, {}, settings)
    except Exception as error:  # noqa: BLE001  # no error of ours may stop the job
        log(f"{type(error).__name__}: {printable(str(error))}")
    event.accept()


main()
