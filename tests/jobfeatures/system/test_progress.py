import io
import sys

from jobfeatures.system.progress import shown_count


class Terminal(io.StringIO):
    def isatty(self):
        return True


def shown(monkeypatch, stream, total):
    monkeypatch.setattr(sys, "stderr", stream)
    with shown_count(total, "working") as tick:
        tick(3)
        tick(4)
    return stream.getvalue()


def test_a_terminal_sees_a_bar_or_at_least_what_is_done(monkeypatch):
    assert "0.00/7.00" in shown(monkeypatch, Terminal(), 7)
    text = shown(monkeypatch, Terminal(), None)
    assert "working …" in text
    assert "0.00" not in text


def test_nothing_is_written_where_nobody_looks_or_no_bar_is_installed(monkeypatch):
    assert shown(monkeypatch, io.StringIO(), 7) == ""
    monkeypatch.setitem(sys.modules, "tqdm", None)
    assert shown(monkeypatch, Terminal(), 7) == ""
