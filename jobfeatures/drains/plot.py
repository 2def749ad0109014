"""Draws drain plans. Needs matplotlib, from the extra ``analysis``."""

from __future__ import annotations

from collections.abc import Sequence

from jobfeatures.drains.nodemetrics import SeenNode
from jobfeatures.drains.plan import NodePlan, compute_choice
from jobfeatures.errors import ConfigurationError
from jobfeatures.settings.usage import need

MAX_NODES = 12  # more curves cannot be told apart
POINTS = 400


def plot_plans(plans: Sequence[NodePlan], nodes: Sequence[SeenNode], path: str) -> None:
    """Draw the waste against the shutdown time into a file, whose suffix selects the format (png, svg, pdf).

    For a single node, the three parts of its waste are drawn. For several nodes, each of the first dozen of
    `plans` gets one curve. Raises ConfigurationError without matplotlib or for an unknown suffix, OSError if
    writing fails.
    """
    need("matplotlib.figure", "--plot", "matplotlib")
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    by_name = {node.name: node for node in nodes}
    drawn = plans[:MAX_NODES]
    for number, plan in enumerate(drawn):
        first, last = plan.choices[0].after_secs, plan.choices[-1].after_secs
        span = max((last - first) * 1.03, 60.0)  # so that the step at the last end is visible
        # Sample each end twice, just before and at it: the waste drops there in a step.
        steps = [choice.after_secs for choice in plan.choices]
        times = sorted(
            {first + span * step / POINTS for step in range(POINTS + 1)}
            | {time for step in steps for time in (max(first, step - 0.001), step)}
        )
        choices = [compute_choice(by_name[plan.node], time) for time in times]
        hours = [time / 3600 for time in times]
        colour = f"C{number % 10}"
        if len(drawn) == 1:
            parts = ("idle", "draining", "killed")
            values = [
                [each.idle_core_secs / 3600 for each in choices],
                [each.draining_core_secs / 3600 for each in choices],
                [each.kill_core_secs / 3600 for each in choices],
            ]
            axes.stackplot(hours, values, labels=parts, colors=("C7", "C1", "C3"), alpha=0.6)
        else:
            total = [each.core_secs / 3600 for each in choices]
            line = "-" if number < 10 else "--"
            axes.plot(hours, total, color=colour, linestyle=line, label=_label(plan.node))
        best = plan.best
        if best is None:
            continue
        axes.plot(
            [best.after_secs / 3600],
            [best.core_secs / 3600],
            "o",
            color="black" if len(drawn) == 1 else colour,
            label=f"best: in {best.after_secs / 3600:.2f} h" if len(drawn) == 1 else None,
        )
    axes.set_xlabel("shutdown in … hours from now")
    axes.set_ylabel("waste (core hours)")
    axes.set_ylim(bottom=0)
    axes.margins(x=0.01)
    axes.grid(visible=True, alpha=0.3)
    more = f" (the first {len(drawn)} of {len(plans)} nodes)" if len(plans) > len(drawn) else ""
    only = drawn[0].best if len(drawn) == 1 else None
    basis = f" (basis: {only.basis})" if only is not None else ""
    name = _label(drawn[0].node) if len(drawn) == 1 else "nodes"
    axes.set_title(f"What draining {name} wastes, by shutdown time{basis}{more}", parse_math=False)
    figure.legend(loc="outside right upper")
    try:
        figure.savefig(path, dpi=120)
    except ValueError as error:
        raise ConfigurationError("--plot", str(error).splitlines()[0]) from error


def _label(text: str) -> str:
    """Return a name that matplotlib shows literally: not as a formula, nor hidden from the legend."""
    return text.replace("$", r"\$").lstrip("_") or "?"
