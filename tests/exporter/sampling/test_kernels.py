"""The same job on four kernels (tests/fixtures/kernels): what each tells is read, what it lacks is unknown, never 0."""

import pytest

from jobfeatures.batch.processes import parse_real_uid
from jobfeatures.records.model import JobKey
from jobfeatures_exporter.model.measured import MemoryBytes
from jobfeatures_exporter.model.snapshot import BlockIo, CpuSecs, FigureSource
from jobfeatures_exporter.sampling.processes.members import parse_process_memory
from jobfeatures_exporter.sampling.sampler import Sampler
from jobfeatures_exporter.sampling.samplersettings import SamplerSettings

ALL_MEMORY = MemoryBytes(
    anon=307200,
    file=196608,
    shmem=4096,
    kernel=12288,
    swap=8192,
    charged=520192,
    limit=104857600,
    peak=614400,
    reclaimable=196608,
)
STALLED_SECS = {
    ("memory", "some"): 0.4, ("memory", "full"): 0.3, ("io", "some"): 0.9, ("io", "full"): 0.7,
}  # fmt: skip
MEMORY = {
    "3.10": ALL_MEMORY._replace(file=None, shmem=None),  # cache holds both
    "4.18": ALL_MEMORY,
    "5.14": ALL_MEMORY._replace(peak=None, sock=0),
    "6.8": ALL_MEMORY._replace(sock=0),
}
BLOCK_IO = BlockIo(read_bytes=1024, written_bytes=2048, reads=1, writes=2)


@pytest.fixture(params=MEMORY)
def kernel(request):
    return request.param


@pytest.fixture
def snapshot(kernel, fixtures, clock):
    folder = fixtures / "kernels" / kernel
    sampler = Sampler(SamplerSettings(procfs=str(folder / "proc"), cgroup=str(folder / "cgroup")), clock)
    yield sampler.sample()
    sampler.close()


def test_a_job_is_read_on_each_kernel_and_what_a_kernel_lacks_is_unknown(kernel, snapshot):
    assert snapshot.unreadable == {}
    assert snapshot.jobs.keys() == {JobKey("slurm", "77")}
    [job] = snapshot.jobs.values()
    has_v2 = kernel in ("5.14", "6.8")
    assert (job.accounting, job.cgroup_version) == (FigureSource.CGROUP, 2 if has_v2 else 1)
    assert (job.processes, job.threads, job.cpus) == (1, 2, 2)
    assert (job.user_cpu_secs, job.system_cpu_secs) == (1.875, 0.625)
    assert job.memory == MEMORY[kernel]
    assert job.oom_kills == (None if kernel == "3.10" else 1)
    assert job.memory_limit_hits == 3
    assert job.memory_ooms == (1 if has_v2 else None)
    assert job.block_io == (BLOCK_IO if has_v2 else None)
    stalled = {**STALLED_SECS, ("cpu", "some"): 2.0, ("cpu", "full"): 0.0}
    assert job.pressure_secs == (stalled if kernel == "6.8" else {})


def test_the_node_is_read_on_each_kernel(kernel, snapshot):
    node = snapshot.node
    assert node.cpu == CpuSecs(47.05, 1.5, 11.2, 162.5, 5.2, 0.3, 0.45, 0.0)
    assert node.cores.keys() == {0, 1}
    assert node.memory_bytes["MemAvailable"] == 12_000_000 * 1024
    assert (node.load1, node.runnable_entities, node.boot_time_secs) == (1.35, 3, 1795247965)
    assert node.pressure_secs == ({**STALLED_SECS, ("cpu", "some"): 5.0} if kernel == "6.8" else {})


def test_a_process_s_memory_by_kind_is_known_since_4_5(kernel, fixtures):
    status = fixtures / "kernels" / kernel / "proc/4242/status"
    assert parse_real_uid(status.read_bytes()) == 6001
    memory = parse_process_memory(status.read_text())
    kinds = (memory.anon, memory.file, memory.shmem)
    kib = 1024
    assert kinds == ((None, None, None) if kernel == "3.10" else (300 * kib, 96 * kib, 4 * kib))
    assert memory.swap == 8 * kib
