"""The example of docs/library.md that evaluates a log runs as it stands there."""

import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/library.md"
BLOCKS = re.findall(r"```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
LOG = "; MaxProcs: 4\n" + "".join(
    f"{job} {job} {2 * job} 10 2 -1 -1 2 20 -1 1 {job % 2} 1 -1 1 1 -1 -1\n" for job in range(1, 9)
)


def test_the_schedule_of_a_log_is_evaluated(tmp_path, monkeypatch):
    [example] = [each for each in BLOCKS if "schedule.result" in each]
    (tmp_path / "log.swf").write_text(LOG)
    monkeypatch.chdir(tmp_path)
    names = {}
    exec(compile(example, str(PAGE), "exec"), names)
    late = names["late"].tolist()
    assert len(late) == 8
    assert any(late)
