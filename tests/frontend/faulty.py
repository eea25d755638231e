"""Compilers with a fault, for the tests of tc.verify: to it they are what a real one with that
fault would be, for it sees their graphs, schedules and results alone.

A fault gives another graph's results in the place of the right ones: where a pass leaves that graph
behind, or where code for it is made although the graph, the kernels and their schedules are told as
they are.
"""

from tc.verifying_pipeline import Build, Pipeline


class WrongPass(Pipeline):
    """Behind the pass `name` the text `before` of the graph has become `after`."""

    def __init__(self, name, before, after, **options):
        super().__init__(**options)
        self.passes = [
            (each, self._wrong(run, before, after) if each == name else run)
            for each, run in self.passes
        ]

    @staticmethod
    def _wrong(run, before, after):
        def wrong(graph):
            result = run(graph)
            return (
                result.edited(result.text.replace(before, after))
                if before in result.text
                else result
            )

        return wrong


class WrongCode(Pipeline):
    """Code is made of a graph with `after` in the place of `before` where the kernels that are
    built are so that `applies` says it."""

    def __init__(self, before, after, applies=lambda kernels: True, **options):
        super().__init__(**options)
        self._before, self._after, self._applies = before, after, applies

    def compiled(self, graph, traces=None):
        right = graph.compile(traces or {})
        if self._before not in graph.text or not self._applies(right.reports):
            return Build(right, self.threads)
        wrong = Build(
            graph.edited(graph.text.replace(self._before, self._after)).compile(traces or {}),
            self.threads,
        )
        wrong.kernels = list(right.reports)
        return wrong


def scheduled(label, words):
    """Whether a kernel whose label has `label` has a line of schedule that begins with `words`."""
    return lambda kernels: any(
        label in kernel["label"].split(" + ")
        and any(line.startswith(words) for line in kernel["trace"])
        for kernel in kernels
    )


def fused(*nodes):
    """Whether one kernel computes all of these nodes."""
    return lambda kernels: any(
        set(nodes) <= set(kernel["label"].split(" + ")) for kernel in kernels
    )
