"""A metric's values as text, in the metric's own unit. The drift's sentences, the gate and all reports use these."""

from __future__ import annotations

from .metric_kinds import SHARE


def format_value(value: float, unit: str) -> str:
    """Format a metric: "98.06 %" of a share, else "12.31", with the unit where it has one."""
    return f"{value * 100:.2f} %" if unit == SHARE else _with_unit(f"{value:.4g}", unit)


def format_change(delta: float, unit: str) -> str:
    """Format a signed difference: "+0.28 pp" of shares, else "+0.0125"; "±0" where nothing is left of it."""
    text = f"{delta * 100:+.2f}" if unit == SHARE else f"{delta:+.3g}"
    if float(text) == 0:
        return "±0"
    return f"{text} pp" if unit == SHARE else _with_unit(text, unit)


def format_loss(loss: float, unit: str) -> str:
    """Format a loss or a limit: "1.00 pp" of shares, else "0.01"."""
    return f"{loss * 100:.2f} pp" if unit == SHARE else _with_unit(f"{loss:.3g}", unit)


def format_interval(low: float, high: float, unit: str) -> str:
    """Format an interval of differences, without its unit: "[-0.83, +0.28]"."""
    ends = (f"{end * 100:+.2f}" if unit == SHARE else f"{end:+.3g}" for end in (low, high))
    return f"[{', '.join(ends)}]"


def _with_unit(text: str, unit: str) -> str:
    return f"{text} {unit}" if unit else text
