"""What a sampler takes from the settings of this node."""

from tests.configured import configured


def test_paths_and_the_nodes_name_are_the_settings_and_nothing_optional_is_read():
    config = configured(path_procfs="/host/proc", path_cgroup="/host/cgroup", node_name="n1", jobs_steps=True)
    made = config.of_sampler()
    assert (made.procfs, made.cgroup, made.node_name, made.batch) == (
        "/host/proc",
        "/host/cgroup",
        "n1",
        config.shared.batch,
    )
    assert (made.sysfs, made.steps, made.process_io, made.top_commands) == (
        None,
        False,
        False,
        0,
    )
