import subprocess
import sys

import pytest

from jobfeatures.analysis.schedule.gallery import Gallery
from jobfeatures.errors import ConfigurationError

LINES = """\
; MaxProcs: 6
1 0  0  4 2 -1 -1 -1 -1 -1 1 1 7 -1  1 -1 -1 -1
2 1  3  1 2 -1 -1 -1 -1 -1 1 1 7 -1 -1 -1 -1 -1
3 2  0  2 4 -1 -1 -1 -1 -1 1 2 8 -1  1 -1 -1 -1
"""


@pytest.fixture
def drawn(read_swf):
    """Return a function: a gallery → it, with one schedule."""
    from jobfeatures.analysis.schedule.document import make_document
    from jobfeatures.analysis.schedule.result import Options
    from jobfeatures.analysis.schedule.runs import Store
    from jobfeatures.analysis.schedule.spooled import spool
    from jobfeatures.analysis.schedule.whole import Whole

    def draw(gallery):
        whole = Whole(spool("log", [read_swf(*LINES.splitlines())], Options()), ("user",))
        sketch = gallery.sketch(whole, Store())
        for chunk in whole.evaluate_chunks():
            if sketch is not None:
                sketch.add(*chunk)
        if sketch is not None:
            gallery.add(sketch.view(make_document(whole, ("user",))))
        return gallery

    return draw


def test_a_report_or_pictures_are_written(drawn, tmp_path, monkeypatch):
    monkeypatch.setattr(  # which are written where; how they look is looked at beside what draws them
        "jobfeatures.analysis.schedule.pictures.draw._render", lambda _picture, _form: b"<svg></svg>"
    )
    report, directory = tmp_path / "out.html", tmp_path / "new" / "pictures"
    drawn(Gallery(str(report))).write()
    assert report.read_text(encoding="utf-8").startswith("<!DOCTYPE html>")
    names = ["heatmap.png", "heatmap.svg", "users.png", "users.svg"]
    for path in (f"{directory}/", str(directory)):  # made, then there
        drawn(Gallery(path)).write()
        assert sorted(each.name for each in directory.iterdir()) == names
        for each in directory.iterdir():
            each.unlink()
    assert not any(each.is_file() and each.suffix in {".png", ".svg"} for each in tmp_path.iterdir())


def test_nothing_is_kept_where_nothing_is_wanted(drawn):
    drawn(Gallery()).write()


def test_what_cannot_be_written_is_told_before_any_work(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigurationError, match="--report: no such directory"):
        Gallery(str(tmp_path / "no" / "out.html"))
    with pytest.raises(ConfigurationError, match=r"--report: .*/file/: "):
        Gallery(f"{tmp_path}/file/")


def test_a_report_that_cannot_be_written_at_the_end_is_told(drawn, monkeypatch):
    monkeypatch.setattr("jobfeatures.analysis.schedule.pictures.draw.draw_pictures", lambda views: iter(()))
    gallery = drawn(Gallery("/dev/full"))
    with pytest.raises(ConfigurationError, match="--report: cannot be written: No space left"):
        gallery.write()


@pytest.mark.parametrize("name", ["out.html", "out/"])
def test_without_matplotlib_the_extra_is_named(name, tmp_path, monkeypatch):
    for each in ("matplotlib", "matplotlib.figure"):
        monkeypatch.setitem(sys.modules, each, None)
    with pytest.raises(
        ConfigurationError, match=r"needs matplotlib: pip install 'jobfeatures-exporter\[analysis\]'"
    ):
        Gallery(f"{tmp_path}/{name}")
    assert list(tmp_path.iterdir()) == []
    Gallery()


@pytest.mark.program
def test_nothing_that_measures_or_shows_loads_matplotlib():
    code = (
        "import sys, jobfeatures_exporter.cli, jobfeatures_exporter.node.daemon, jobfeatures_exporter.controller.daemon, jobfeatures_exporter.scrape.pagetext, jobfeatures.cli\n"
        "import jobfeatures.commands.schedule\n"
        "print('matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "False\n"
