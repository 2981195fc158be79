"""Recurrent layers. T steps, D directions, B samples, H hidden elements; each gate has H rows of W and R."""

from __future__ import annotations

from collections.abc import Callable

from ..lazy_torch import Tensor, torch


def scanned(
    step: Callable[..., tuple[Tensor, ...]], gates: Tensor, states: tuple[Tensor, ...], lengths: Tensor | None
) -> tuple[Tensor, tuple[Tensor, ...]]:
    """Run `step(gates of one step, *states)`: return the first state after every step (T, B, H), zero beyond a sample's
    length, and all states after the last. A dynamic number of steps becomes a while_loop."""
    count = gates.shape[0]

    def run_step(at: Tensor, gate: Tensor, *before: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        after = step(gate, *before)
        if lengths is None:
            return after[0], after
        runs = (at < lengths).unsqueeze(-1)
        kept = tuple(torch.where(runs, new, old) for new, old in zip(after, before, strict=True))
        return torch.where(runs, after[0], torch.zeros_like(after[0])), kept

    if isinstance(count, int):
        outputs = []
        for at in range(count):
            output, states = run_step(torch.full((), at, device=gates.device), gates[at], *states)
            outputs.append(output)
        return torch.stack(outputs), states

    def more(at: Tensor, *_: Tensor) -> Tensor:
        return at < count

    def body(at: Tensor, outputs: Tensor, *before: Tensor) -> tuple[Tensor, ...]:
        place = at.reshape(1)
        output, after = run_step(at, gates.index_select(0, place).squeeze(0), *before)
        return at + 1, outputs.index_copy(0, place, output.unsqueeze(0)), *(state.clone() for state in after)

    empty = torch.zeros((count, gates.shape[1], states[0].shape[1]), dtype=gates.dtype, device=gates.device)
    start = torch.zeros((), dtype=torch.int64, device=gates.device)
    _, outputs, *last = torch._higher_order_ops.while_loop(
        more, body, (start, empty, *(state.clone() for state in states))
    )
    return outputs, tuple(last)


def each_direction(
    run: Callable[..., tuple[Tensor, tuple[Tensor, ...]]],
    x: Tensor,
    backwards: tuple[bool, ...],
    lengths: Tensor | None,
) -> tuple[Tensor, ...]:
    """Run `run(direction, x)` for x (T, B, I), reversed where the direction runs backwards: return Y (T, D, B, H), and
    each final state (D, B, H)."""
    outputs, finals = [], []
    for at, reverse in enumerate(backwards):
        fed = turned_around(x, lengths) if reverse else x
        output, final = run(at, fed)
        outputs.append(turned_around(output, lengths) if reverse else output)
        finals.append(final)
    return torch.stack(outputs, 1), *(torch.stack(state) for state in zip(*finals, strict=True))


def turned_around(x: Tensor, lengths: Tensor | None) -> Tensor:
    """Reverse each sample's steps up to its length; the rest stays."""
    if lengths is None:
        return x.flip(0)
    time = torch.arange(x.shape[0], device=x.device)[:, None]
    place = torch.where(time < lengths, lengths - 1 - time, time)
    return x.gather(0, place.unsqueeze(-1).expand(x.shape))


def lstm(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor,
    h: Tensor,
    c: Tensor,
    backwards: tuple[bool, ...] = (False,),
    lengths: Tensor | None = None,
    peepholes: Tensor | None = None,
    coupled: bool = False,
    f: tuple[Callable[[Tensor], Tensor], ...] = (torch.sigmoid, torch.tanh, torch.tanh),
) -> tuple[Tensor, ...]:
    """Compute i, o, f = f(...); c' = f c + i g(...); h' = o h(c'). Peepholes let the gates see c, and o see c'.

    x (T, B, I), w (D, 4 H, I) and r (D, 4 H, H) with the gates i, o, f, c; b (D, 8 H), h and c (D, B, H).
    """
    size = 4 * r.shape[-1]

    def run(at: int, fed: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        sigmoid, g, last = f[3 * at : 3 * at + 3] if len(f) > 3 else f
        gates = torch.matmul(fed, w[at].transpose(0, 1)) + (b[at, :size] + b[at, size:])

        def step(gate: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, ...]:
            i, o, forget, new = (gate + torch.matmul(h, r[at].transpose(0, 1))).chunk(4, -1)
            # Cut in here: PyTorch's loop takes no two parts of one tensor from around it.
            seen = None if peepholes is None else peepholes[at].chunk(3)
            if seen is not None:
                i, forget = i + seen[0] * c, forget + seen[2] * c
            i = sigmoid(i)
            c = (1 - i if coupled else sigmoid(forget)) * c + i * g(new)
            o = sigmoid(o if seen is None else o + seen[1] * c)
            return o * last(c), c

        return scanned(step, gates, (h[at], c[at]), lengths)

    return each_direction(run, x, backwards, lengths)


def gru(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor,
    h: Tensor,
    late: bool,
    backwards: tuple[bool, ...] = (False,),
    lengths: Tensor | None = None,
    f: tuple[Callable[[Tensor], Tensor], ...] = (torch.sigmoid, torch.tanh),
) -> tuple[Tensor, ...]:
    """Compute z, r = f(...); n = g(x Wh + r (h Rh + b)) where `late`, else g(x Wh + (r h) Rh + b); h' = (1 - z) n + z
    h.

    x (T, B, I), w (D, 3 H, I) and r (D, 3 H, H) with the gates z, r, h; b (D, 6 H), h (D, B, H).
    """
    hidden = r.shape[-1]

    def run(at: int, fed: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        sigmoid, g = f[2 * at : 2 * at + 2] if len(f) > 2 else f
        gates = torch.matmul(fed, w[at].transpose(0, 1)) + b[at, : 3 * hidden]
        bias = b[at, 3 * hidden :]

        def step(gate: Tensor, h: Tensor) -> tuple[Tensor, ...]:
            z_r = torch.matmul(h, r[at, : 2 * hidden].transpose(0, 1)) + bias[: 2 * hidden]
            z, reset = sigmoid(gate[:, : 2 * hidden] + z_r).chunk(2, -1)
            own, more = r[at, 2 * hidden :].transpose(0, 1), bias[2 * hidden :]
            n = reset * (torch.matmul(h, own) + more) if late else torch.matmul(reset * h, own) + more
            n = g(gate[:, 2 * hidden :] + n)
            return ((1 - z) * n + z * h,)

        return scanned(step, gates, (h[at],), lengths)

    return each_direction(run, x, backwards, lengths)


def rnn(
    x: Tensor,
    w: Tensor,
    r: Tensor,
    b: Tensor,
    h: Tensor,
    backwards: tuple[bool, ...] = (False,),
    lengths: Tensor | None = None,
    f: tuple[Callable[[Tensor], Tensor], ...] = (torch.tanh,),
) -> tuple[Tensor, ...]:
    """Compute h' = f(x W + h R + b). x (T, B, I), w (D, H, I), r (D, H, H), b (D, 2 H), h (D, B, H)."""
    hidden = r.shape[-1]

    def run(at: int, fed: Tensor) -> tuple[Tensor, tuple[Tensor, ...]]:
        g = f[at] if len(f) > 1 else f[0]
        gates = torch.matmul(fed, w[at].transpose(0, 1)) + (b[at, :hidden] + b[at, hidden:])

        def step(gate: Tensor, h: Tensor) -> tuple[Tensor, ...]:
            return (g(gate + torch.matmul(h, r[at].transpose(0, 1))),)

        return scanned(step, gates, (h[at],), lengths)

    return each_direction(run, x, backwards, lengths)


def gates_in_order(matrix: Tensor, order: tuple[int, ...]) -> Tensor:
    """Return the rows of a weight or a bias with the gates in another order."""
    parts = matrix.chunk(len(order))
    return torch.cat([parts[at] for at in order])


def torch_weights(w: Tensor, r: Tensor, b: Tensor, order: tuple[int, ...]) -> list[Tensor]:
    """Return the weights as torch.lstm and torch.gru take them: of every direction in turn."""
    weights = []
    for at in range(w.shape[0]):
        biases = b[at].chunk(2)
        weights += [gates_in_order(part, order) for part in (w[at], r[at], *biases)]
    return weights


def torch_outputs(outputs: tuple[Tensor, ...], directions: int) -> tuple[Tensor, ...]:
    """Return (T, B, D H) as (T, D, B, H); the states stay as they are."""
    y, *states = outputs
    return y.reshape(y.shape[0], y.shape[1], directions, y.shape[2] // directions).transpose(1, 2), *states


def torch_lstm(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor, h: Tensor, c: Tensor, backwards: tuple[bool, ...] = (False,)
) -> tuple[Tensor, ...]:
    """Compute `lstm`, by torch.lstm where the number of steps is known."""
    if not isinstance(x.shape[0], int) or backwards == (True,):
        return lstm(x, w, r, b, h, c, backwards)
    weights = torch_weights(w, r, b, (0, 2, 3, 1))  # it has the gates i, f, c, o
    outputs = torch.lstm(x, (h, c), weights, True, 1, 0.0, False, len(backwards) > 1, False)
    return torch_outputs(outputs, len(backwards))


def torch_gru(
    x: Tensor, w: Tensor, r: Tensor, b: Tensor, h: Tensor, backwards: tuple[bool, ...] = (False,)
) -> tuple[Tensor, ...]:
    """Compute `gru` with `late`, by torch.gru where the number of steps is known."""
    if not isinstance(x.shape[0], int) or backwards == (True,):
        return gru(x, w, r, b, h, True, backwards)
    weights = torch_weights(w, r, b, (1, 0, 2))  # it has the gates r, z, h
    outputs = torch.gru(x, h, weights, True, 1, 0.0, False, len(backwards) > 1, False)
    return torch_outputs(outputs, len(backwards))


def initial_state(x: Tensor, directions: int, hidden: int) -> Tensor:
    """Return zeros (D, B, H) for x (T, B, I)."""
    return torch.zeros((directions, x.shape[1], hidden), dtype=x.dtype, device=x.device)
