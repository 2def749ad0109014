"""The `jobfeatures` command: what hooks, administrators and jobs run.

Exit status: 0 done; 1 the answer is not known (`get`, `remaining`, `show`) or
the work could not be done; 2 wrong usage or settings. `publish` and `remove`
exit with 0 whatever happens, unless `--strict` is given: a prolog that fails
takes its node out of service.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Sequence
from types import FrameType
from typing import NoReturn

from jobfeatures import __version__
from jobfeatures.batch import SYSTEMS
from jobfeatures.config import Config
from jobfeatures.errors import ConfigurationError, JobfeaturesError
from jobfeatures.logs import FORMATS, LEVELS, configure_logging
from jobfeatures.settings import add_flags, load_config, settings_of

log = logging.getLogger(__name__)

JOB_VARIABLES = {name: each.job_variable for name, each in SYSTEMS.items() if each.job_variable}
ASK_SHARE = 0.75  # of the hook's time may go into asking the controller; the rest is for writing


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    arguments = build_parser().parse_args(argv)
    configure_logging(arguments.log_level, arguments.log_format)
    run = {
        "publish": _publish,
        "remove": _remove,
        "env": _env,
        "show": _show,
        "get": _get,
        "remaining": _remaining,
    }[arguments.command]
    try:
        return run(arguments)
    except ConfigurationError as error:
        print(f"jobfeatures: {error}", file=sys.stderr)
        return 2
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def build_parser() -> argparse.ArgumentParser:
    """Return the command line's grammar."""
    parser = argparse.ArgumentParser(
        prog="jobfeatures", description="Machine/job features: publish them for jobs, and read them in a job."
    )
    parser.add_argument("--version", action="version", version=f"jobfeatures {__version__}")
    parser.add_argument(
        "--log.level", dest="log_level", choices=LEVELS, default="info", help="(default: info)"
    )
    parser.add_argument(
        "--log.format", dest="log_format", choices=FORMATS, default="logfmt", help="(default: logfmt)"
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")

    def command(name: str, text: str, *, settings: bool = True) -> argparse.ArgumentParser:
        made = commands.add_parser(
            name, help=text, description=text[0].upper() + text[1:] + ".", allow_abbrev=False
        )
        if settings:
            add_flags(made, Config)
        return made

    for name, text in (
        ("publish", "publish the features of the job that starts here; for a prolog"),
        ("remove", "take away the features of the job that ended here; for an epilog"),
    ):
        hook = command(name, text)
        hook.add_argument(
            "--batch", choices=sorted(JOB_VARIABLES), help="batch system (default: by the environment)"
        )
        hook.add_argument("--strict", action="store_true", help="exit with 1 where something failed")
    env = command("env", "print export lines for this job; for a task prolog or a shell's eval")
    env.add_argument("--batch", choices=sorted(SYSTEMS), help="batch system (default: by the environment)")
    env.add_argument("--job", metavar="ID", help="job (default: by the environment)")
    show = command("show", "print the features of a job, or of all jobs published here")
    show.add_argument("job", nargs="?", metavar="JOB", help="id (default: this job, else all jobs)")
    show.add_argument("--batch", choices=sorted(SYSTEMS), help="batch system, if the id is not unique")
    get = command("get", "print the value of one key of this job or this machine", settings=False)
    get.add_argument("key", metavar="KEY")
    remaining = command("remaining", "print how many seconds this job may still run", settings=False)
    remaining.add_argument("--explain", action="store_true", help="print what the answer is based on")
    return parser


# --- hooks ---------------------------------------------------------------------


def _publish(arguments: argparse.Namespace) -> int:
    def work(config: Config) -> None:
        from jobfeatures.hooks import publish_job

        started = time.monotonic()
        batch_system = _batch_system(arguments.batch)
        job = publish_job(config, batch_system, os.environ, timeout_secs=ASK_SHARE * config.hook_timeout_secs)
        log.info("published", extra={"job_id": job.key.job_id, "secs": f"{time.monotonic() - started:.3f}"})

    return _hook(arguments, work)


def _remove(arguments: argparse.Namespace) -> int:
    def work(config: Config) -> None:
        from jobfeatures.hooks import remove_job
        from jobfeatures.model import JobKey

        batch_system = _batch_system(arguments.batch)
        key = JobKey(batch_system, _job_id(batch_system))
        found = remove_job(config, key)
        log.info("removed" if found else "nothing to remove", extra={"job_id": key.job_id})

    return _hook(arguments, work)


class _DeadlineError(Exception):
    """The hook's time is up."""


def _hook(arguments: argparse.Namespace, work: Callable[[Config], None]) -> int:
    """Run a hook's work within its deadline; a failure is logged, and a status only with `--strict`."""
    status = 1 if arguments.strict else 0
    try:
        config = _config(arguments, strict=False)
        signal.signal(signal.SIGALRM, _deadline)
        signal.setitimer(signal.ITIMER_REAL, config.hook_timeout_secs)
        work(config)
    except _DeadlineError:
        log.error("%s: out of time", arguments.command)
        return status
    except (JobfeaturesError, OSError) as error:
        log.error("%s: %s", arguments.command, error)
        return status
    except Exception:  # a hook must not fail its job, whatever is wrong with us
        log.exception("%s failed", arguments.command)
        return status
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
    return 0


def _deadline(_number: int, _frame: FrameType | None) -> NoReturn:
    raise _DeadlineError


# --- for people and jobs ----------------------------------------------------------


def _env(arguments: argparse.Namespace) -> int:
    from jobfeatures.hooks import format_exports
    from jobfeatures.model import JobKey
    from jobfeatures.publish.tree import FeatureTree

    config = _config(arguments)
    batch_system = _batch_system(arguments.batch)
    key = JobKey(batch_system, arguments.job or _job_id(batch_system))
    tree = FeatureTree(config.features_root)
    if not os.path.isdir(tree.job_path(key)):
        log.warning("nothing is published for this job", extra={"job_id": key.job_id})
        return 0  # a task prolog: the job runs without features
    print(format_exports(tree, key), end="")
    return 0


def _show(arguments: argparse.Namespace) -> int:
    from jobfeatures.show import show_jobs

    config = _config(arguments)
    return show_jobs(config, arguments.job, arguments.batch, os.environ)


def _get(arguments: argparse.Namespace) -> int:
    from jobfeatures.client import Features, FeaturesError

    try:
        value = Features.from_environment().find(arguments.key)
    except FeaturesError as error:
        print(f"jobfeatures: {error}", file=sys.stderr)
        return 1
    if value is None:
        print(f"jobfeatures: {arguments.key} is not known here", file=sys.stderr)
        return 1
    print(value)
    return 0


def _remaining(arguments: argparse.Namespace) -> int:
    from jobfeatures.show import show_remaining

    return show_remaining(os.environ, explain=arguments.explain)


# --- common ------------------------------------------------------------------------


def _config(arguments: argparse.Namespace, *, strict: bool = False) -> Config:
    given = vars(arguments)
    flags = {each.key: given.get(each.key) for each in settings_of(Config)}
    return load_config(Config, flags=flags, file=given.get("config.file"), strict=strict)


def _batch_system(named: str | None) -> str:
    if named is not None:
        return named
    for batch_system, variable in JOB_VARIABLES.items():
        if variable in os.environ:
            return batch_system
    raise ConfigurationError("--batch", f"is needed: none of {', '.join(JOB_VARIABLES.values())} is set")


def _job_id(batch_system: str) -> str:
    variable = JOB_VARIABLES.get(batch_system, "")
    job_id = os.environ.get(variable, "")
    if not job_id:
        raise ConfigurationError(variable or "--job", "the job's id is not known")
    return job_id
