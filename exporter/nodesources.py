"""The batch sources of a node, each with the thread that keeps asking it, and what its site states."""

from __future__ import annotations

from collections.abc import Callable, Collection

from exporter.config import AUTO, DaemonConfig
from jobfeatures.batch import SYSTEMS, load_module
from jobfeatures.batch.hooks import HookSource
from jobfeatures.batch.source import BatchSource, SourceKeeper, SourceStatus
from jobfeatures.clock import Clock
from jobfeatures.model import JobKey, JobTable
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.site import Site, read_cores, read_cpu_model

LOCAL_MIN_INTERVAL_SECS = 0.2  # between two looks at a folder
STOP_SECS = 5.0  # that questions under way may take to end, all together


class NodeSources:
    """The keepers. A reload replaces them; what they knew, and their counts, go on."""

    def __init__(
        self,
        config: DaemonConfig,
        clock: Clock,
        node_name: str,
        tree: FeatureTree,
        *,
        seen: Callable[[], Collection[JobKey]],
        on_change: Callable[[], None],
    ) -> None:
        """Raise ConfigurationError if a source cannot be asked as the settings say."""
        self._clock = clock
        self._node_name = node_name
        self._tree = tree
        self._seen = seen
        self._on_change = on_change
        self._keepers = self._make(config)

    def start(self) -> None:
        """Start asking."""
        for keeper in self._keepers:
            keeper.start()

    def stop(self) -> None:
        """Stop asking; a question that hangs is left behind."""
        for keeper in self._keepers:
            keeper.stop(0.0)  # all are told before one is waited for
        deadline = self._clock.monotonic_secs() + STOP_SECS
        for keeper in self._keepers:
            keeper.stop(max(0.0, deadline - self._clock.monotonic_secs()))

    def prepare(self, config: DaemonConfig) -> Callable[[], None]:
        """Return what starts asking by other settings. ConfigurationError: nothing has changed."""
        made = self._make(config)

        def replace() -> None:
            self.stop()
            known = {keeper.status.name: keeper.status for keeper in self._keepers}
            for keeper in made:
                keeper.status = known.get(keeper.status.name, keeper.status)
            self._keepers = made
            self.start()

        return replace

    def refresh(self, names: Collection[str]) -> None:
        """Ask these again as soon as the limits allow."""
        for keeper in self._keepers:
            if keeper.status.name in names:
                keeper.refresh()

    @property
    def statuses(self) -> tuple[SourceStatus, ...]:
        """Return what each keeper tells."""
        return tuple(keeper.status for keeper in self._keepers)

    def tables(self) -> list[JobTable]:
        """Return the last good answers."""
        return [status.table for status in self.statuses if status.table is not None]

    def stalled(self) -> list[str]:
        """Return the names of keepers whose thread has died."""
        return [f"source {keeper.status.name}" for keeper in self._keepers if keeper.has_died]

    def _make(self, config: DaemonConfig) -> list[SourceKeeper]:
        """Return keepers, the best informed last."""
        names = [name for name in SYSTEMS if name in config.batch_sources]
        if AUTO in config.batch_sources:
            names = [name for name in SYSTEMS if name in names or load_module(name).is_here(config)]
        made: list[BatchSource] = []
        if config.features_publish:
            made.append(HookSource(self._tree.records_path, self._clock))
        made += [load_module(name).make_source(config, self._clock, self._node_name) for name in names]
        return [self._keep(source, config.batch_interval_secs) for source in made]

    def _keep(self, source: BatchSource, interval_secs: float) -> SourceKeeper:
        return SourceKeeper(
            source,
            interval_secs=interval_secs,
            min_interval_secs=LOCAL_MIN_INTERVAL_SECS if source.is_local else interval_secs,
            seen=self._seen,
            claimed=lambda: self._tree.published().keys(),
            on_change=self._on_change,
        )


def make_site(config: DaemonConfig) -> Site:
    """Return what the settings state for this machine."""
    return Site(
        config,
        cpu_model=read_cpu_model(f"{config.path_procfs}/cpuinfo"),
        cores=read_cores(f"{config.path_sysfs}/devices/system/cpu"),
    )
