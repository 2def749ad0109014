"""What the programs that ask the board's controller print: forms as their sources have them, constructed values."""

import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobfeatures.errors import CommandError, ParseError, SourceError
from jobfeatures_exporter.sampling.power import PowerError, PowerSettings, dcmi
from jobfeatures_exporter.sampling.power.dcmi import parse_power

IPMITOOL = """
    Instantaneous power reading:                   220 Watts
    Minimum during sampling period:                 18 Watts
    Maximum during sampling period:                500 Watts
    Average power reading over sample period:      219 Watts
    IPMI timestamp:                           11/23/2026 04:00:00 UTC    Sampling period:                          00000001 Seconds.
    Power reading state is:                   activated


"""
FREEIPMI = """Current Power                        : 164 Watts
Minimum Power over sampling duration : 96 watts
Maximum Power over sampling duration : 308 watts
Average Power over sampling duration : 163 watts
Time Stamp                           : 11/23/2026 - 04:00:00
Statistics reporting time period     : 1000 milliseconds
Power Measurement                    : Active
"""
OPENBMC = "Instantaneous power reading: 319 Watts\nPower reading state is: deactivated\n"


@pytest.mark.parametrize(
    ("text", "watts"),
    [(IPMITOOL, 220), (FREEIPMI, 164), (FREEIPMI.replace("Watts", "watts"), 164),
     (FREEIPMI.replace("\n", "\r\n"), 164),
     # OpenBMC says "deactivated" always.
     (IPMITOOL.replace("activated", "deactivated"), 220),
     (IPMITOOL.replace("activated", "deactivated").replace(" 18 Watts", " 0 Watts"), 220),
     (FREEIPMI.replace("Active", "Not Available"), 164),
     (OPENBMC, 319)],
)  # fmt: skip
def test_both_programs_are_understood(text, watts):
    assert parse_power(text) == watts


@pytest.mark.parametrize(
    "text",
    [
        "",
        IPMITOOL.replace("activated", "deactivated").replace(" 18 ", " 0 ").replace("219", "0"),
        IPMITOOL.replace("activated", "deactivated").replace("500", "0"),
        IPMITOOL.replace("activated", "deactivated").replace("220", "0"),
        FREEIPMI.replace("Active", "Not Available").replace("96", "165"),
        IPMITOOL.replace("220", "65535"),
        FREEIPMI.replace("164", "65535"),
        FREEIPMI.replace("Power Measurement ", "Power"),
        IPMITOOL.replace("220", "0"),
        IPMITOOL.replace("220", "-5"),
        IPMITOOL.replace("220", "999999"),
        IPMITOOL.replace("220", "1e3"),
        IPMITOOL + FREEIPMI,
        IPMITOOL.replace("220 Watts", "220 degrees C"),
        "DCMI request failed because: Invalid command (c1)\n",
    ],
)
def test_what_is_no_measured_power_is_refused(text):
    with pytest.raises(ParseError):
        parse_power(text)


@given(st.text(alphabet="Instantaneous power reading:0123456789 Wats\n\t\r", max_size=400) | st.text())
def test_any_text_is_watts_or_refused(text):
    try:
        assert 0 < parse_power(text) <= 200_000
    except ParseError:
        pass


def test_much_of_little_is_read_at_once():
    with pytest.raises(ParseError):
        parse_power("\n" * 16_000 + "Current Power" + " " * 16_000)


@pytest.fixture
def config(tmp_path):
    """Return settings whose command is a script that the test writes."""

    def make(script):
        path = tmp_path / "a tool"
        path.write_text(f"#!/bin/sh\n{script}\n")
        os.chmod(path, stat.S_IRWXU)
        return PowerSettings(dcmi=f"'{path}' dcmi power reading")

    return make


@pytest.mark.program
def test_the_command_is_run_without_a_shell_and_read(config):
    script = f"""[ "$*" = "dcmi power reading" ] && cat <<'E'\n{IPMITOOL}\nE"""
    assert dcmi.make(config(script), "/sys")() == 220


@pytest.mark.program
@pytest.mark.parametrize(
    ("script", "error", "words"),
    [
        ("echo 'Could not open device at /dev/ipmi0' >&2; exit 1", SourceError, "Could not open device"),
        ("sleep 600 & sleep 600", CommandError, "not finished after"),
        ("yes", CommandError, "more than"),
    ],
)
def test_a_command_that_fails_hangs_or_babbles_is_ended_and_told(config, monkeypatch, script, error, words):
    monkeypatch.setattr(dcmi, "TIMEOUT_SECS", 1.0 if "sleep" in script else 60.0)
    with pytest.raises(error, match=words):
        dcmi.make(config(script), "/sys")()


@pytest.mark.parametrize("command", ["", "ipmitool 'dcmi"])
def test_a_setting_that_is_no_command_is_told(command):
    with pytest.raises(PowerError, match=r"power\.dcmi"):
        dcmi.make(PowerSettings(dcmi=command), "/sys")
