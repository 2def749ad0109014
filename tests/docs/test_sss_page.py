import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/library.md"


def test_the_program_on_the_page_prints_what_the_page_says(capsys):
    _, _, objects = PAGE.read_text(encoding="utf-8").partition("## Job objects")
    program = re.findall(r"^```python\n(.*?)^```$", objects, re.DOTALL | re.MULTILINE)[0]
    exec(program, {})
    assert capsys.readouterr().out == "farm2 2/3\nfarm1 1/3\n"


# "<Processors group=”-1”>12</Processors> <Processors conj=”Or” group=”1”>16</Processors>": section 1.3.
ELABORATE = """<JobGroup>
<Id>workflow1</Id>
<JobDefaults><Environment>
<Variable name=”PATH”>/usr/bin:~/bin:</Variable>
<Environment>
</JobDefaults>
<Job>
<Id>fr15n05.1234.1</Id>
<State>Idle</State>
<TaskGroup><TaskCount>1</TaskCount><Name>Master</Name><Memory>2048<Memory>
</TaskGroup>
<TaskGroup><Name>Slave</Name><Requested>
<Processors group=”-1”>12</Processors>
<Processors conj=”Or” group=”1”>16</Processors>
<Memory>512</Memory></Requested></TaskGroup>
</Job>
</JobGroup>
"""


def test_the_elaborate_example_is_read_as_the_page_says(tmp_path, call):
    printed, mended, records = (tmp_path / name for name in ("printed.xml", "mended.xml", "out.jsonl"))
    printed.write_text(ELABORATE, encoding="utf-8")
    mended.write_text(
        ELABORATE.replace("<Environment>\n</JobD", "</Environment>\n</JobD").replace("2048<M", "2048</M"),
        encoding="utf-8",
    )
    assert "mismatched tag" in call("jobfeatures", "convert", str(printed), str(records)).stderr
    refused = call("jobfeatures", "check", "--lenient", str(mended))
    assert (refused.returncode, refused.stdout) == (
        1,
        f"{mended}:13:Processors: column 1: closes a group that is not open: '-1'\n",
    )
    assert call("jobfeatures", "convert", str(mended), str(records)).returncode == 0
    assert '"requested_cpus": 13' in records.read_text()
