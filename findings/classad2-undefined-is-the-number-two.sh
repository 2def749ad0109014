#!/bin/bash
# htcondor 25.14.1 (PyPI wheel), its module classad2: attributes without a value, as ads of slots and jobs have them.
# One would guess: what is undefined is like None: false, equal to no number, and an error in a sum; a query for
# slots without GPUs, sum(ad["GPUs"] …) or `if ad["Start"]`, either works or raises TypeError.
# What happens: Undefined and Error are members of an IntEnum. Undefined is true, equals 2 and counts as 2 in sums;
# Error is true, equals 1 and counts as 1; json.dumps writes 2 and 1. classad2's own printJson writes null for it.
# Why it matters: an attribute that is missing gives None and is noticed; one that is there without a value
# (Start of a draining slot, a limit that an expression cannot find) becomes a small, plausible number of CPUs or GPUs.
set -euo pipefail
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
python3 -m venv "$work/venv"
"$work/venv/bin/pip" -q install htcondor==25.14.1
"$work/venv/bin/python" - <<'PYTHON'
import json

import classad2

print("classad2", classad2.version())
print("guess: an undefined value is false, no number, and an error in a sum")
slots = [classad2.ClassAd(text) for text in ("[GPUs = 4]", "[GPUs = undefined]", "[GPUs = Cores / 0; Cores = 8]")]
values = [slot.eval("GPUs") for slot in slots]
seen = {
    "values": [str(value) for value in values],
    "sum of the three": sum(values),
    "slots that have GPUs": sum(1 for value in values if value),
    "slots with exactly 2": sum(1 for value in values if value == 2),
    "json.dumps": json.dumps(values),
    "printJson": json.loads(slots[1].printJson()),
    "missing": classad2.ClassAd("[Cpus = 1]").get("GPUs"),
}
for what, value in seen.items():
    print(f"{what}: {value}")
assert isinstance(classad2.Value.Undefined, int), "no longer a number"
assert seen["sum of the three"] == 4 + 2 + 1, "no longer summed"
assert seen["slots that have GPUs"] == 3 and seen["slots with exactly 2"] == 1
assert seen["json.dumps"] == "[4, 2, 1]" and seen["printJson"] == {"GPUs": None} and seen["missing"] is None
PYTHON
