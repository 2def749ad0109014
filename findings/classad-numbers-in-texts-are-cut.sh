#!/bin/bash
# htcondor 25.14.1 (PyPI wheel; its modules htcondor2 and classad2): numbers that stand in texts of ads, as custom
# resources, +attributes of submit files and lists in strings have them.
# One would guess: a text that is not wholly a number is an Error, as it is for "abc" and "", and the average of a list
# of numbers is the average, as avg({1, 2}) = 1.5 is.
# What happens: int() and real() read as far as they can: int("4G") is 4, real("1,5") is 1.0, while int("G4") is an Error.
# stringListAvg("1,2") is 1: a list of whole numbers has a whole average, cut; one decimal anywhere ("1,2.0") makes it
# 1.5; and the average or sum of no numbers is the real 0.0, though their greatest is Undefined.
# Why it matters: a request of "4G" compared with megabytes is always met, and a limit by an average load of
# a few cores is wrong by up to one: no error, no Undefined, a job that matches.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install htcondor==25.14.1
"$work/venv/bin/python" - <<'PYTHON'
import classad2
import htcondor2  # it brings the functions on lists in strings

print("htcondor2", htcondor2.version())
print("guess: Error for texts that are no numbers; 1.5 for each average of 1 and 2")
expected = {
    'int("4G")': "4",
    'real("1,5")': "1.0",
    'int("G4")': "Error",
    'int("")': "Error",
    "avg({1, 2})": "1.5",
    'stringListAvg("1,2")': "1",
    'stringListAvg("1,2.0")': "1.5",
    'stringListAvg("")': "0.0",
    'stringListMax("")': "Undefined",
}
for expression, written in expected.items():
    value = classad2.ExprTree(expression).eval()
    seen = value.name if isinstance(value, classad2.Value) else repr(value)
    print(f"{expression} is {seen}")
    assert seen == written, f"changed: {written} was seen"
PYTHON
