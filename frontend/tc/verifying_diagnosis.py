"""Finds which part of the compiler makes a small model wrong: a pass, a recorded or default
schedule, fusion, or an operator's own code. Each is left out in turn."""

import dataclasses
import difflib
import typing

from .comparing import compared
from .errors import Error
from .verifying_pipeline import evaluate, traces_of, traces_without_schedule

_MAX_LINES = 12  # that a report shows of what a pass changed


@dataclasses.dataclass
class Diagnosis:
    """`part` is "pass", "recorded schedule", "schedule", "fusion", "operator", "overflow" or
    "model"; `name` says which one, `detail` says in sentences what was observed. `trials` are (what
    was changed, whether the model is right then; None where it cannot be compiled that way)."""

    part: str
    name: str = ""
    detail: list = dataclasses.field(default_factory=list)
    trials: list = dataclasses.field(default_factory=list)
    line: typing.Optional[str] = None  # the line of a schedule that makes it wrong
    kernel: typing.Optional[str] = None
    without: typing.Optional[object] = (
        None  # builds a whole model without the culprit: (subject, case) -> Build
    )


def _right(subject, case, build):
    """Whether a build of the case is right; None where it cannot be built or run."""
    try:
        built = build()
        found = built.run(case.values) if built else None
    except Error:
        found = None
    if found is None:
        return None
    expected = subject.expected(case)
    return all(
        subject.difference(name, found[name], expected[name]).within for name in case.outputs
    )


def _wrong_pass(subject, case):
    """(name, what it changed) of the first pass after which the interpreter's results exceed the
    budget."""
    pipeline, expected = subject.pipeline, subject.expected(case)
    graph = pipeline.imported(case.data)
    before = graph.text
    for name, run in pipeline.passes:
        try:
            graph = run(graph)
            after = graph.text
            if after == before:
                continue
            results = evaluate(graph, case.values, case.outputs)[0]
        except Error as error:
            return name, [f"after it, the graph cannot be evaluated: {error}"]
        if not all(
            compared(
                output, subject.dtype_of(output), results[output], expected[output], subject.budget
            ).within
            for output in case.outputs
        ):
            changed = [
                line
                for line in difflib.unified_diff(
                    before.splitlines(), after.splitlines(), lineterm="", n=0
                )
                if not line.startswith(("---", "+++", "@@"))
            ]
            return name, changed[:_MAX_LINES] + (["…"] if len(changed) > _MAX_LINES else [])
        before = after
    return None, []


def _wrong_kernel(subject, case, graph, kernels):
    """The kernel without whose schedule the case is right, and the first line of its trace that
    makes it wrong."""
    pipeline, chosen = subject.pipeline, traces_of(kernels)
    plain = traces_without_schedule(kernels)
    for kernel in kernels:
        workload = kernel["workload"]
        if not _right(
            subject, case, lambda: pipeline.compiled(graph, chosen | {workload: plain[workload]})
        ):
            continue
        for count in range(len(kernel["layout_lines"]) + 1, len(kernel["trace"]) + 1):
            trial = kernel["trace"][:count]

            def prefix(trial=trial, workload=workload):
                build = pipeline.compiled(graph, chosen | {workload: trial})
                taken = any(
                    list(each["trace"]) == list(trial)
                    for each in build.kernels
                    if each["workload"] == workload
                )
                return build if taken else None

            if _right(subject, case, prefix) is False:
                return kernel, trial[-1]
        return kernel, None
    return None, None


def _kept_value(subject, case, graph, names):
    """A value such that the results are right if it is stored (that is, not fused away)."""
    for name in names:
        if _right(subject, case, lambda: subject.pipeline.compiled(graph.giving([name]))):
            return name
    return None


def diagnose(subject, case):
    """The part of the compiler that makes a case wrong. The case is wrong as tc.compile builds
    it."""
    pipeline = subject.pipeline
    graph = pipeline.imported(case.data)
    wrong_pass, changed = _wrong_pass(subject, case)
    trials = [
        ("the graph before the passes, interpreted", _right_interpreted(subject, case, graph))
    ]
    simplified = pipeline.simplified(graph)
    try:
        kernels = pipeline.compiled(simplified).kernels
    except Error:
        kernels = []
    plain = traces_without_schedule(kernels)
    inner = [name for name in simplified.made if name not in case.outputs]
    trials.append(("the graph after the passes, interpreted", wrong_pass is None))
    recorded = [kernel["label"] for kernel in kernels if kernel["tuned"]]
    if recorded:
        trials.append(
            (
                "without the log's schedules",
                _right(subject, case, lambda: pipeline.build(case.data, log=False)),
            )
        )
    trials.append(
        (
            "without schedules: loops as the statements stand",
            _right(subject, case, lambda: pipeline.compiled(simplified, plain)) if plain else None,
        )
    )
    trials.append(
        (
            "without fusion: every value stored",
            _right(subject, case, lambda: pipeline.compiled(simplified.giving(inner)))
            if inner
            else None,
        )
    )
    trials.append(
        (
            "with tolerance=0: no approximations",
            _right(subject, case, lambda: pipeline.build(case.data, tolerance=0))
            if pipeline.tolerance
            else None,
        )
    )
    verdicts = dict(trials)
    if wrong_pass:
        return Diagnosis(
            "pass",
            wrong_pass,
            [f"the pass {wrong_pass} changes what the graph computes:", *changed],
            trials,
            without=lambda whole: pipeline.compiled(
                pipeline.simplified(pipeline.imported(whole), without=(wrong_pass,))
            ),
        )
    if verdicts.get("without the log's schedules"):
        return _recorded(subject, case, simplified, kernels, trials)
    if verdicts["without schedules: loops as the statements stand"]:
        return _schedule(subject, case, simplified, kernels, trials)
    if verdicts["without fusion: every value stored"]:
        return _fusion(subject, case, simplified, kernels, inner, trials)
    labels = ", ".join(kernel["label"] for kernel in kernels)
    return Diagnosis(
        "operator",
        labels,
        [
            "neither passes nor schedules nor fusion make the difference: what is left is how the operator is "
            "lowered to loops (its row in ir/ops), the code that is generated for them, and the constants that they read"
        ],
        trials,
        kernel=labels,
    )


def _right_interpreted(subject, case, graph):
    expected = subject.expected(case)
    results = evaluate(graph, case.values, case.outputs)[0]
    return all(
        compared(name, subject.dtype_of(name), results[name], expected[name], subject.budget).within
        for name in case.outputs
    )


def _recorded(subject, case, simplified, kernels, trials):
    pipeline, chosen = subject.pipeline, traces_of(kernels)
    tuned = [kernel for kernel in kernels if kernel["tuned"]]
    alone = [
        kernel
        for kernel in tuned
        if _right(
            subject,
            case,
            lambda: pipeline.compiled(
                simplified,
                {key: trace for key, trace in chosen.items() if key != kernel["workload"]},
            ),
        )
    ]
    kernel = (alone or tuned)[0]
    detail = [
        f"the log has a schedule for kernel {kernel['label']}; with the default in its place the model is right"
    ]
    return Diagnosis(
        "recorded schedule",
        kernel["label"],
        detail,
        trials,
        kernel=kernel["label"],
        without=lambda whole: pipeline.build(whole, log=False),
    )


def _schedule(subject, case, simplified, kernels, trials):
    pipeline = subject.pipeline
    kernel, line = _wrong_kernel(subject, case, simplified, kernels)

    def without(whole):
        graph = pipeline.simplified(pipeline.imported(whole))
        return pipeline.compiled(graph, traces_without_schedule(pipeline.compiled(graph).kernels))

    if kernel is None:
        return Diagnosis(
            "schedule",
            "of several kernels",
            ["only without the schedules of all kernels the model is right"],
            trials,
            without=without,
        )
    detail = [f"kernel {kernel['label']} is right when its loops stand as its statements do"]
    if line:
        detail.append(f"its schedule is wrong from this line on: {line}")
    if kernel["algorithm"]:
        detail.append(
            f"its schedule computes with {kernel['algorithm']}, which the tolerance of {kernel['tolerance']:g} allows"
        )
    return Diagnosis(
        "schedule",
        kernel["label"],
        detail,
        trials,
        line=line,
        kernel=kernel["label"],
        without=without,
    )


def _fusion(subject, case, simplified, kernels, inner, trials):
    pipeline = subject.pipeline
    value = _kept_value(subject, case, simplified, inner)
    labels = ", ".join(kernel["label"] for kernel in kernels)
    detail = [
        f"the kernel {labels} is wrong"
        if len(kernels) == 1
        else f"of the kernels {labels} one is wrong"
    ]
    detail.append(
        f"it is right as soon as '{value}' is stored to memory"
        if value
        else "it is right when all values between its nodes are stored"
    )

    def without(whole):
        graph = pipeline.simplified(pipeline.imported(whole))
        return pipeline.compiled(graph.giving(list(graph.made)))

    return Diagnosis("fusion", labels, detail, trials, kernel=labels, without=without)
