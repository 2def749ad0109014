"""What a batch system is given of the settings."""

from jobfeatures.batch import BatchSettings
from tests.configured import configured


def test_a_batch_system_is_given_its_own_settings_and_those_of_all() -> None:
    config = configured(BatchSettings, slurm_ask="rest", batch_timeout_secs=1.0, controller_url="http://c")
    found = config.of("slurm", procfs="/p")
    assert (found.own, found.common, found.controller) == (config.slurm, config.common, config.controller)
    assert (found.own.ask, found.common.timeout_secs, found.controller.url) == ("rest", 1.0, "http://c")
    assert (found.procfs, found.cgroup) == ("/p", "/sys/fs/cgroup")


def test_a_batch_system_without_settings_is_given_those_of_all() -> None:
    assert BatchSettings().of("flux").own is None
