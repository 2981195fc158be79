"""Einstein's notation for any labels, as products of matrices, which both dialects have kernels for."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from ...lazy_tensorflow import tf
from ...lowerings import NUMBERS, lowers
from ...operator_context import OperatorContext
from ...values import Size, TfTensor, Value, broadcast_size, computed, line_along, product, reshape, transpose

# The axes of an ellipsis get labels that no equation can have.
_ELLIPSIS = "0123456789"


@dataclass(frozen=True)
class Term:
    """An operand with a label for each of its axes."""

    value: Value
    labels: str

    def size(self, label: str) -> Size:
        """Return the length of a label's axis."""
        return self.value.size(self.labels.index(label))

    def static(self, label: str) -> int | None:
        """Return the length of a label's axis, or None where it is known only when the model runs."""
        return self.value.shape[self.labels.index(label)]


@lowers("Einsum", since=12, until=28, T=NUMBERS)
def einsum(op: OperatorContext) -> Value:
    """Lower Einsum: a sum of products. Small integers are multiplied as wider ones and wrap as they are cut."""
    operands = op.values()
    inputs, output = _read_labels(op, op.text("equation").replace(" ", ""), [value.rank for value in operands])
    wide = _WIDE.get(operands[0].dtype)
    terms = [_take_diagonal(Term(_cast(value, wide), labels)) for value, labels in zip(operands, inputs, strict=True)]
    term = _sum_unwanted(terms[0], output + "".join(other.labels for other in terms[1:]))
    for at, right in enumerate(terms[1:], 2):
        wanted = output + "".join(other.labels for other in terms[at:])
        term = _multiply(
            op, _sum_unwanted(term, wanted + right.labels), _sum_unwanted(right, wanted + term.labels), wanted
        )
    answer = _reorder(_sum_unwanted(term, output), output)
    return answer if wide is None else computed(tf.cast(answer.tensor(), operands[0].dtype)).with_sizes_of(answer)


_WIDE = {"int8": "int32", "uint8": "int32", "int16": "int32", "uint16": "int32", "uint32": "int32", "uint64": "int64"}


def _cast(value: Value, dtype: str | None) -> Value:
    return value if dtype is None else computed(tf.cast(value.tensor(), dtype)).with_sizes_of(value)


def _read_labels(op: OperatorContext, equation: str, ranks: list[int]) -> tuple[list[str], str]:
    """Return the labels of operands and result; without an arrow the ellipsis, then single labels, in ASCII order."""
    left, arrow, right = equation.partition("->")
    written = left.split(",")
    if len(written) != len(ranks):
        op.refuse(f"its equation {equation!r} is not one of {len(ranks)} operands", fix="check the model")
    hidden = max(
        (rank - len(term.replace("...", "")) for term, rank in zip(written, ranks, strict=True) if "..." in term),
        default=0,
    )
    inputs = []
    for term, rank in zip(written, ranks, strict=True):
        count = rank - len(term.replace("...", ""))  # the last of them, as in broadcasting
        inputs.append(term.replace("...", _ELLIPSIS[hidden - count : hidden] if count else ""))
        if len(inputs[-1]) != rank:
            op.refuse(f"its equation {equation!r} names other axes than its operands have", fix="check the model")
    if not arrow:
        once = Counter(left.replace(",", "").replace(".", ""))
        right = ("..." if "..." in left else "") + "".join(sorted(label for label, count in once.items() if count == 1))
    return inputs, right.replace("...", _ELLIPSIS[:hidden])


def _take_diagonal(term: Term) -> Term:
    """Take the diagonal of axes that share a label: all else is set to zero, and summed away."""
    for label, count in Counter(term.labels).items():
        for _ in range(count - 1):
            first = term.labels.index(label)
            second = term.labels.index(label, first + 1)
            tensor, sizes = term.value.tensor(), [term.value.size(first), term.value.size(second)]
            lines = [
                line_along(tf.range(size), axis, term.value.rank)
                for size, axis in zip(sizes, (first, second), strict=True)
            ]
            diagonal = tf.where(tf.equal(*lines), tensor, tf.zeros_like(tensor))
            left = [axis for axis in range(term.value.rank) if axis != second]
            value = computed(tf.reduce_sum(diagonal, second)).with_sizes_of(term.value, enumerate(left))
            term = Term(value, term.labels[:second] + term.labels[second + 1 :])
    return term


def _sum_unwanted(term: Term, wanted: str) -> Term:
    """Sum over the axes whose labels are not wanted."""
    gone = [at for at, label in enumerate(term.labels) if label not in wanted]
    if not gone:
        return term
    left = [at for at in range(term.value.rank) if at not in gone]
    value = computed(tf.reduce_sum(term.value.tensor(), gone)).with_sizes_of(term.value, enumerate(left))
    return Term(value, "".join(term.labels[at] for at in left))


def _multiply(op: OperatorContext, a: Term, b: Term, wanted: str) -> Term:
    """Multiply two terms, summed over the labels that both have and that are not wanted."""
    a, b = _drop_ones(a, b, wanted), _drop_ones(b, a, wanted)
    shared = [label for label in a.labels if label in b.labels]
    batch, inner = [x for x in shared if x in wanted], [x for x in shared if x not in wanted]
    rows, columns = ([x for x in term.labels if x not in shared] for term in (a, b))
    labels = "".join([*batch, *rows, *columns])
    if not inner:
        left, right = _spread_axes(a, labels), _spread_axes(b, labels)
        return Term(computed(left * right), labels)
    left, right = _as_matrices(a, batch, rows, inner), _as_matrices(b, batch, inner, columns)
    products = op.kernels.matmul(left, right)
    sizes = [broadcast_size(a.size(label), b.size(label)) for label in batch]
    sizes += [a.size(label) for label in rows] + [b.size(label) for label in columns]
    return Term(computed(reshape(products, sizes)).with_sizes(sizes), labels)


def _drop_ones(term: Term, other: Term, wanted: str) -> Term:
    """Drop an axis of size 1 that would be broadcast and then summed over: the other one alone is summed."""
    ones = [x for x in term.labels if x in other.labels and x not in wanted and term.static(x) == 1]
    return _sum_unwanted(term, "".join(x for x in term.labels if x not in ones))


def _as_matrices(term: Term, batch: list[str], rows: list[str], columns: list[str]) -> TfTensor:
    """Return (batch axes..., rows, columns): the labels of the rows merged into one axis, those of the columns too."""
    tensor = _reorder(term, "".join([*batch, *rows, *columns])).tensor()
    parts = ([term.size(label) for label in labels] for labels in (rows, columns))
    return reshape(tensor, [*(term.size(label) for label in batch), *(product(sizes) for sizes in parts)])


def _reorder(term: Term, labels: str) -> Value:
    """Return the term's value with its axes in the order of these labels."""
    order = [term.labels.index(label) for label in labels]
    return computed(transpose(term.value.tensor(), order)).with_sizes_of(term.value, enumerate(order))


def _spread_axes(term: Term, labels: str) -> TfTensor:
    """Return the term among the axes of more labels, with size 1 where it has none."""
    ordered = _reorder(term, "".join(label for label in labels if label in term.labels))
    return reshape(ordered.tensor(), [term.size(label) if label in term.labels else 1 for label in labels])
