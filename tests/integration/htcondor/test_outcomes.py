"""What becomes of a job on a real HTCondor with us beside it: what becomes of it without us."""

from __future__ import annotations

import pytest

long = pytest.mark.long


SETTINGS = "/etc/condor/config.d/90-jobfeatures"
OUTCOMES = {  # the job's program → how it ends, without us as with us: held, or its exit code or signal
    "executable = /no/such/program": ("held", 6, 2),
    "executable = /home/alice/folder": ("held", 6, 13),
    "executable = /home/alice/not-executable": ("held", 6, 13),
    "executable = /home/alice/no-interpreter\ntransfer_executable = True": ("held", 6, 2),
    "executable = /home/alice/no-first-line": ("held", 6, 8),
    "executable = /bin/sh\narguments = \"-c 'exit 127'\"": (127, None, ""),
    "executable = /bin/sh\narguments = \"-c 'kill -TERM $$'\"": (None, 15, ""),
    "executable = /usr/bin/printf\narguments = \"'%s|' 'a b' '' '$A' 'it''s' '*'\"\nenvironment = A=1": (
        0,
        None,
        "a b||$A|it's|*|",
    ),
    "executable = /bin/sh\narguments = \"-c 'cd $PWD && echo $JOBFEATURES'\"\nenvironment = JOBFEATURES=mine": (
        0,
        None,
        "mine\n",
    ),
}


@pytest.fixture
def without_us(pool):
    """Take our settings away."""
    pool.run("mv", SETTINGS, "/tmp/settings")
    yield
    pool.run("mv", "/tmp/settings", SETTINGS)


def test_a_job_ends_or_is_held_as_without_us(pool):
    check_outcomes(pool)


@long
@pytest.mark.usefixtures("without_us")
def test_that_is_how_a_job_ends_or_is_held_without_us(pool):
    check_outcomes(pool)


def check_outcomes(pool):
    script = (
        "mkdir -p folder; echo '#!/no/such' >no-interpreter; echo >no-first-line; echo >not-executable;"
        "chmod 755 no-*; chmod 644 not-executable"
    )
    pool.run("sh", "-c", script, user="alice")
    jobs = {pool.submit(lines)[0]: wanted for lines, wanted in OUTCOMES.items()}
    for job, wanted in jobs.items():
        if wanted[0] == "held":
            ad = pool.wait(job, 5)
            found = ("held", ad["HoldReasonCode"], ad["HoldReasonSubCode"])
        else:
            ad = pool.wait_for_end(job)
            found = (ad.get("ExitCode"), ad.get("ExitSignal"), pool.output(job))
        assert found == wanted, job
