import re
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs/sss.md"


def test_the_program_on_the_page_prints_what_the_page_says(capsys):
    [program] = re.findall(
        r"^```python\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )
    exec(program, {})
    assert capsys.readouterr().out == "farm2 2/3\nfarm1 1/3\n"
