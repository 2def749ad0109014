"""Runs the daemon and its listener until a signal or a given time ends them."""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import logging
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import TYPE_CHECKING, Any

from jobfeatures.errors import JobfeaturesError
from jobfeatures.publish.tree import FeatureTree
from jobfeatures.system.clock import SystemClock
from jobfeatures.system.filelimit import LEAST, raise_limit
from jobfeatures.system.heap import give_back_free_memory, share_one_arena
from jobfeatures_exporter.config import ExporterConfig
from jobfeatures_exporter.node.daemon import Daemon
from jobfeatures_exporter.node.keptsettings import WatchedSettings
from jobfeatures_exporter.sampling.bpf.choice import PROCFS_ALONE, Choice
from jobfeatures_exporter.scrape.collectors import CONTROLLER, load_all
from jobfeatures_exporter.service.goingon import fail_if_dead, tell_end
from jobfeatures_exporter.service.supervision import Notifier, keep_telling
from jobfeatures_exporter.startup.checks import check, check_features_root, other_listeners
from jobfeatures_exporter.startup.reloader import Reloader
from jobfeatures_exporter.web.config import FEATURES, NODES
from jobfeatures_exporter.web.listener import Listeners
from jobfeatures_exporter.web.sockets import find_kept

# Optional parts are imported only if they are enabled: the daemon runs on every
# node, and its memory is taken from the jobs.
if TYPE_CHECKING:
    from jobfeatures_exporter.cluster.nodeanswers import NodeAnswers
    from jobfeatures_exporter.controller.daemon import Controller
    from jobfeatures_exporter.startup.receiver import Ingest
    from jobfeatures_exporter.web.app import Routes

log = logging.getLogger(__name__)

FEW_FILES = 1024  # a limit below which it is said
START_SECS = 120.0  # for all threads to start


def serve(
    config: ExporterConfig,
    *,
    reread: Callable[[], ExporterConfig] | None = None,
    settings_file: str | None = None,
    on_listening: Callable[[str], None] = lambda _address: None,
    choose_reader: Callable[[], Choice] = lambda: PROCFS_ALONE,
) -> None:
    """Serve until SIGINT or SIGTERM; a second signal ends the process at once.

    `reread` reads the settings again, and SIGHUP applies them; without it, SIGHUP ends the process, too.
    `settings_file`, if given, is checked periodically for errors, since hooks read it too. `on_listening` is
    called with HOST:PORT once the port is open. `choose_reader` returns how processes are read (eBPF, /proc).
    Raises ConfigurationError before anything has started.
    """
    faulthandler.enable(2)  # a watchdog's SIGABRT writes each thread's stack to the journal
    notifier = Notifier.from_environment()
    share_one_arena()
    threading.excepthook = tell_end
    if (limit := raise_limit()) < LEAST:
        raise JobfeaturesError(
            f"the limit of open files is {limit}, but {LEAST} are needed: raise LimitNOFILE= or ulimit -Hn"
        )
    if limit < FEW_FILES:
        message = "few files can be open, so few connections are accepted: raise LimitNOFILE= or ulimit -Hn"
        log.warning(message, extra={"limit": limit})
    try:
        asyncio.run(_serve(config, notifier, reread, settings_file, on_listening, choose_reader))
    except JobfeaturesError as error:
        notifier.status(str(error))
        raise


async def _serve(
    config: ExporterConfig,
    notifier: Notifier,
    reread: Callable[[], ExporterConfig] | None,
    settings_file: str | None,
    on_listening: Callable[[str], None],
    choose_reader: Callable[[], Choice],
) -> None:
    # Before any listener or other thread: a reader needs privileges that are then dropped permanently.
    watched = None
    if reread is not None and settings_file is not None:
        watched = WatchedSettings(settings_file, lambda: check(reread()))
    served = make_served(config, lambda: _choose(choose_reader, notifier), watched)
    ingest = make_ingest(config)
    listeners = Listeners.from_config(config.web, other_listeners(config))
    ended = _end_signals(hangup=reread is None and signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN)
    kept = contextlib.ExitStack()  # to the end of all that publishes
    started = False
    try:
        async with contextlib.AsyncExitStack() as stack:
            opened = listeners.serving(served, config.web_listen_address, lambda: _routes(served, ingest))
            address = await stack.enter_async_context(opened)
            reloader = Reloader(config, served, notifier, reread, lambda: f"serving on {address}")
            reloader.files.append(listeners.reread)
            if isinstance(served, Daemon):
                await _serve_features(stack, config, served, listeners)
                await _serve_own(stack, config, served)
            elif served.node_answers is not None:
                reloader.files.append(await _serve_nodes(stack, config, served.node_answers, listeners))
            if ingest is not None:
                await stack.enter_async_context(ingest.running(listeners))
            if isinstance(served, Daemon) and config.features_publish:
                kept.enter_context(FeatureTree(config.shared.batch.common.root).kept_by_one_daemon())
            started = True
            # Python may hang for ever where there is no memory for another thread.
            faulthandler.dump_traceback_later(START_SECS, exit=True, file=2)
            served.start()
            faulthandler.cancel_dump_traceback_later()
            log.info("listening", extra={"address": address})
            if isinstance(served, Daemon):
                log.info("%s", served.reader)
            on_listening(address)
            reloader.listen(asyncio.get_running_loop())
            notifier.ready(reloader.status())
            threading.Thread(target=_settle, args=(config,), daemon=True).start()
            gc.freeze()  # objects made so far stay: exempt them from garbage collection
            async with _at_work(keep_telling(notifier, served, reloader.prefix), reloader.follow()):
                try:
                    await _until(ended, fail_if_dead(served))
                finally:
                    notifier.stopping()
    finally:  # after the listeners: no scrape is accepted that would get no answer
        if started:
            try:
                await asyncio.to_thread(served.stop)
            except (RuntimeError, MemoryError):  # no thread can be started
                served.stop()
        kept.close()
    log.info("stopped")


def _settle(config: ExporterConfig) -> None:
    """Load what the first scrape needs, and free the memory that only the start needed."""
    load_all(config.enabled_collectors())
    give_back_free_memory()


def _choose(choose_reader: Callable[[], Choice], notifier: Notifier) -> Choice:
    """Return how processes are read (eBPF, /proc); leave eBPF's descriptors to systemd for the next start."""
    kept = find_kept()
    choice = choose_reader()
    if choice.descriptors.keys() != kept.keys():
        notifier.drop(kept.keys() - choice.descriptors.keys())
        notifier.keep(choice.descriptors)
    for name in kept.keys() - choice.descriptors.keys():
        os.close(kept[name])
    return choice


def _end_signals(*, hangup: bool) -> asyncio.Event:
    """Return the event that the first SIGINT, SIGTERM (or SIGHUP) sets; the next has its default effect."""
    ended = asyncio.Event()
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGINT, signal.SIGTERM, *([signal.SIGHUP] if hangup else []))

    def end() -> None:
        ended.set()
        for number in numbers:
            loop.remove_signal_handler(number)
            signal.signal(number, signal.SIG_DFL)

    for number in numbers:
        loop.add_signal_handler(number, end)
    return ended


@contextlib.asynccontextmanager
async def _at_work(*work: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Run these tasks until the ``with`` block ends."""
    tasks = [asyncio.create_task(each) for each in work]
    for task in tasks:
        task.add_done_callback(_log_end)
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _log_end(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        log.error(
            "a background task has stopped, the one that reloads settings at SIGHUP or the one that reports "
            "to systemd: restart the daemon to resume it",
            exc_info=error,
        )


async def _until(ended: asyncio.Event, watching: Coroutine[Any, Any, None]) -> None:
    """Wait for the event; raise what `watching` raises."""
    tasks = [asyncio.create_task(each) for each in (ended.wait(), watching)]
    try:
        done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def make_served(
    config: ExporterConfig,
    choose: Callable[[], Choice] = lambda: PROCFS_ALONE,
    settings: WatchedSettings | None = None,
) -> Daemon | Controller:
    """Return the daemon or controller for the role, not started.

    `choose` returns how processes are read (eBPF, /proc). `settings` watches the settings file for errors, if
    given. Raises ConfigurationError if settings contradict each other or do not suit this machine.
    """
    check(config)
    if config.role == CONTROLLER:
        from jobfeatures_exporter.controller.daemon import Controller

        return Controller(config)
    # Contradictory settings are reported before what this machine refuses.
    daemon = Daemon(config, choose_reader=choose, settings=settings)
    check_features_root(config)
    return daemon


def _routes(served: Daemon | Controller, ingest: Ingest | None) -> Routes:
    """Return the routes of `served` and `ingest` for the metrics listener."""
    from jobfeatures_exporter.web.app import discovery_route

    routes = [] if isinstance(served, Daemon) else [discovery_route(served.targets)]
    return routes if ingest is None else [*routes, *ingest.routes()]


def make_ingest(config: ExporterConfig) -> Ingest | None:
    """Return the receiver of other agents' documents, not started; None if none is configured.

    Raises ConfigurationError if settings contradict each other.
    """
    check(config)
    if not config.ingest.awaits_documents:
        return None
    from jobfeatures_exporter.startup.receiver import Ingest

    return Ingest(config)


async def _serve_nodes(
    stack: contextlib.AsyncExitStack, config: ExporterConfig, answers: NodeAnswers, listeners: Listeners
) -> Callable[[], None]:
    """Let nodes query the controller role; return the function that rereads its secret."""
    from jobfeatures_exporter.web.nodelistener import NodeListener, raise_descriptors

    assert config.cluster.listen is not None  # noqa: S101  # required for an answer, see `check`
    assert config.cluster.secret_file is not None  # noqa: S101
    listener = NodeListener(answers, config.cluster.secret_file, SystemClock())
    raise_descriptors()
    opened = listeners.listening(NODES, listener, config.cluster.listen)
    address = await stack.enter_async_context(opened)
    log.info("answering nodes", extra={"address": address})
    return listener.reread


async def _serve_own(stack: contextlib.AsyncExitStack, config: ExporterConfig, daemon: Daemon) -> None:
    """Show users their own jobs on a UNIX socket, if web.own_socket is set."""
    if config.web.own_socket is None:
        return
    from jobfeatures_exporter.web.ownsocket import OwnSocket, serving_own

    own = OwnSocket(daemon.board.recent_context, daemon.pages.own_html, config.path.procfs)
    await stack.enter_async_context(serving_own(config.web.own_socket, own))
    log.info("showing users their own jobs", extra={"path": config.web.own_socket})


async def _serve_features(
    stack: contextlib.AsyncExitStack, config: ExporterConfig, daemon: Daemon, listeners: Listeners
) -> None:
    """Serve the features of a node as well, if enabled."""
    if config.shared.site.served.listen_address is None:
        return
    from jobfeatures.publish.http.server import FeatureServer

    server = FeatureServer(FeatureTree(config.shared.batch.common.root), job_of=daemon.board.job)
    daemon.board.feature_answers = server.counts
    opened = listeners.listening(FEATURES, server, config.shared.site.served.listen_address)
    address = await stack.enter_async_context(opened)
    has_tls = FEATURES in config.web.config_for
    log.info("serving features", extra={"address": address, "tls": str(has_tls).lower()})
