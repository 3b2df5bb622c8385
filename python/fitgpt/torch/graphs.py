"""What CUDA graphs and `max-autotune` need in addition to what is counted, as upper bounds.

A CUDA graph allocates from a private pool that nothing else may use: what compiled code has at its
highest stays taken while other code runs. Inputs that may move, such as batches, are copied to where
the graph expects them. `max-autotune` benchmarks kernels one after another while it compiles, each on
inputs and a result of their own.
"""

import torch

from .report import size


class Graphs:
    """The bounds of one `pretend`, and their notes."""

    def __init__(self, counter):
        self.counter = counter
        self.copied_bytes = 0
        self.benchmark_bytes = 0

    def record(self, model, static_inputs):
        """`model`, with the storages that it allocates marked as a graph's."""
        self.counter.notes.add("CUDA graphs", "cudagraphs", size=lambda: size(self.missing_bytes()))
        static, copied = set(static_inputs), None

        def run(inputs):
            nonlocal copied
            if copied is None:
                moving = (t for index, t in enumerate(inputs) if index not in static)
                copied = sum(t.untyped_storage().nbytes() for t in moving if isinstance(t, torch.Tensor))
                self.copied_bytes += copied
            self.counter.live.in_graph += 1
            try:
                return model(inputs)
            finally:
                self.counter.live.in_graph -= 1

        run._boxed_call = True
        return run

    def missing_bytes(self):
        """The most that a card needs above the peak: the pool next to everything else."""
        changes = []
        for record in self.counter.live.records:
            changes.append((record.born, record.bytes, record.is_in_graph))
            if record.died is not None:
                changes.append((record.died, -record.bytes, record.is_in_graph))
        held, most = [0, 0], [0, 0]
        for _, change, is_in_graph in sorted(changes):
            held[is_in_graph] += change
            most[is_in_graph] = max(most[is_in_graph], held[is_in_graph])
        return max(0, sum(most) + self.copied_bytes - self.counter.measured.peak_bytes)

    def note_benchmark(self, inputs, choice):
        """Notes one selection of a kernel; `inputs` and `choice` are Inductor's nodes."""
        nodes = [*inputs, choice.output_node()]
        self.benchmark_bytes = max(self.benchmark_bytes, sum(map(_bytes, nodes)))
        self.counter.notes.add("max-autotune", "max-autotune", size=lambda: size(self.benchmark_bytes))


def _bytes(node):
    from torch._inductor.virtualized import V

    sizevars = V.graph.sizevars
    hint = getattr(sizevars, "optimization_hint", None) or sizevars.size_hint
    count = 1
    for length in node.get_size():
        count *= int(hint(length))
    return count * node.get_dtype().itemsize
