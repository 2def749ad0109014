"""Logs are opened with their kind."""

from jobfeatures.joblogs.logfiles import reading
from jobfeatures.openlog import open_log


def test_the_name_tells_what_the_beginning_does_not(tmp_path):
    path = tmp_path / "log.swf"
    path.write_text("nothing of the kind\n")
    with reading(str(path)) as stream:
        kind, lines = open_log(stream, None, str(path))
        assert (kind, list(lines)) == ("swf", ["nothing of the kind\n"])
