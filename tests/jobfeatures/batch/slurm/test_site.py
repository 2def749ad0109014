"""Where Slurm says that its control groups are; constructed after cgroup.conf(5)."""

import pytest

from jobfeatures.batch.slurm import site
from tests.configured import settings_for


@pytest.mark.parametrize(
    ("text", "parents"),
    [
        ("CgroupSlice=slurm.slice\n", ["/slurm.slice"]),
        ("CgroupPlugin=cgroup/v2\ncgroupslice = site-batch-x.slice # ours\n", ["/site.slice/site-batch.slice/site-batch-x.slice"]),
        ("CgroupSlice=one.slice/one-two.slice", ["/one.slice/one-two.slice"]),
        ("#CgroupSlice=x.slice\n", []),
        ("CgroupSlice=x\n", []),
        ("CgroupSlice=../x.slice/..\n", []),
        ("CgroupSlice=a//b.slice\n", []),
        ("", []),
    ],
)  # fmt: skip
def test_the_slice_of_cgroup_conf_is_where_systemd_puts_it(tmp_path, monkeypatch, text, parents):
    (tmp_path / "cgroup.conf").write_text(text)
    monkeypatch.setenv("SLURM_CONF", str(tmp_path / "slurm.conf"))
    assert site.read_parents(settings_for("slurm")) == parents


def test_without_a_cgroup_conf_no_slice_is_named(tmp_path, monkeypatch):
    monkeypatch.delenv("SLURM_CONF", raising=False)
    monkeypatch.setattr(site, "CONFIGURATIONS", (str(tmp_path / "slurm.conf"),))
    assert site.read_parents(settings_for("slurm")) == []
