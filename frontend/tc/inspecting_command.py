"""The command inspect: what the compiler does with a model, or with one of its kernels."""

from .accelerator import plan_for
from .arguments import Options, options_of
from .compiling import load
from .errors import Error, lines_text, printable
from .file_options import add_bounds, add_size_versions, bounds, size_versions
from .model_options import (
    MODEL_OR_ARTEFACT,
    add_compiling,
    add_examples,
    examples_of,
    is_artefact,
    shapes_of,
)
from .module import arithmetic_text
from .native import compiler
from .placement import add_place, placement, places_of
from .sources import described, source_of

# The texts of a kernel that --dump prints, and which part of the compiler decides what each shows.
_KERNEL_TEXTS = {
    "statements": "fused by ir/passes/group.cc, lowered by the rows of ir/ops, in layouts of frontend/pipeline/layout.cc",
    "default": "the strategies that scheduler/default/strategy.cc weighs, with predicted cycles",
    "trace": "what scheduler/default decides of packing, tile, order and threads, a primitive a line",
    "tree": "isl's schedule tree of the trace: scheduler/legality/isl.cc",
    "loops": "what codegen gets: scheduler/generate",
}
_ALL_TEXTS = [*_KERNEL_TEXTS, "assembly"]


def _peak_share(kernel, timing):
    """The share of one core's peak multiply-add speed, at the clock frequency that the system
    reports; or None."""
    per_cycle = compiler.resolve_target(kernel.target)[3]
    try:
        with open("/proc/cpuinfo") as file:
            clock = max(float(line.split(":")[1]) for line in file if line.startswith("cpu MHz"))
    except (OSError, ValueError):
        return None
    return kernel.multiply_adds / timing.minimum / (per_cycle * clock * 1e6)


def _chosen_kernel(arguments):
    """The kernel that --kernel names, by its number or by a part of its label that no other kernel
    has."""
    from .kernel import kernels  # which loads the compiler

    found = kernels(
        arguments.model,
        arguments.target,
        shapes=shapes_of(arguments),
        tolerance=arguments.tolerance,
        threads=arguments.threads or 1,
        inputs=examples_of(arguments),
        quantised=arguments.quantised,
        rounding=arguments.rounding,
        **bounds(arguments),
    )
    if arguments.kernel.isdigit() and int(arguments.kernel) < len(found):
        return found[int(arguments.kernel)]
    exact = [kernel for kernel in found if kernel.label == arguments.kernel]
    near = exact or [kernel for kernel in found if arguments.kernel in kernel.label]
    labels = ", ".join(dict.fromkeys(printable(kernel.label, 4000) for kernel in (near or found)))
    if not near:
        raise Error(f"no kernel is called '{arguments.kernel}'; the kernels are {labels}")
    if len({(kernel.text, tuple(kernel.trace)) for kernel in near}) > 1:
        raise Error(f"several kernels fit '{arguments.kernel}': {labels}")
    return near[0]


def _inspect_kernel(arguments):
    kernel = _chosen_kernel(arguments)
    schedule = kernel.schedule()
    wanted = arguments.dump or "all"
    names = _ALL_TEXTS if wanted == "all" else (wanted,)
    passes = {
        name: (f"{stage} behind this pass: {doc}", when)
        for name, doc, when, stage in compiler.code_texts()
        if stage
    }
    texts = _KERNEL_TEXTS | {
        name: doc for name, doc, _, stage in compiler.code_texts() if not stage
    }
    if not texts.keys() | passes.keys() >= set(names):
        raise Error(
            f"--dump={wanted}: a kernel's texts are {', '.join(texts)}, or all; and its code behind a pass: {', '.join(passes)}"
        )
    threads = arguments.threads or 1
    result = {
        "label": kernel.label,
        "target": kernel.target,
        "threads": threads,
        "tolerance": kernel.tolerance,
    }
    text = [
        f"{printable(kernel.label, 4000)} for {kernel.target}, {threads} thread{'s'[: threads != 1]}, tolerance {kernel.tolerance:g}\n"
    ]
    for name in names:
        if name == "statements":
            part = kernel.text
        elif name == "trace":
            part = "\n".join(schedule.trace)
        elif name == "default":
            part, result["strategies"] = kernel.default_report()
        elif name in passes:
            part = (
                schedule.code_text(name)
                or f"does not run for {kernel.target}, only for: {passes[name][1]}"
            )
        elif name in _KERNEL_TEXTS:
            part = getattr(schedule, name)
        else:
            part = schedule.code_text(name)
        result[name] = part
        title = f"{name} ({passes[name][0] if name in passes else texts[name]})"
        runs = compiler.resolve_target(kernel.target)[1]
        if name == "assembly" and runs and kernel.multiply_adds and not arguments.no_time:
            timing = kernel.time(schedule)
            share = _peak_share(kernel, timing)
            result["seconds"], result["peak_share"] = timing.minimum, share
            title += f": measured {timing.minimum * 1e6:.1f} us on one thread"
            title += "" if share is None else f", {share * 100:.0f} % of the core's peak"
        text.append(f"-- {title}\n{part.rstrip()}\n")
    return result, "\n".join(text).rstrip()


def _inspect(arguments):
    if arguments.place and (arguments.kernel is not None or arguments.dump):
        other = "--kernel" if arguments.kernel is not None else "--dump"
        raise Error(
            f"inspect shows where all kernels run (--place), or what {other} asks for; leave one of the two out"
        )
    if arguments.kernel is not None:
        return _inspect_kernel(arguments)
    if is_artefact(arguments.model):
        module = load(arguments.model)
        return {"explain": module.explain()}, module.explain()
    passes = None if arguments.dump == "plan" else arguments.dump
    model, shapes = described(arguments.model, examples_of(arguments), shapes_of(arguments))
    options = options_of(
        Options(
            target=arguments.target,
            shapes=shapes,
            size_versions=size_versions(arguments),
            threads=arguments.threads,
            tolerance=arguments.tolerance,
            seed=arguments.seed,
            dump=passes,
            quantised=arguments.quantised,
            rounding=arguments.rounding,
            **bounds(arguments),
        )
    )
    if arguments.dump == "plan":
        plan = compiler.plan_text(source_of(model), plan_for(options))
        return {"plan": plan}, plan.rstrip()
    if passes:
        graph, dump = compiler.import_model(source_of(model), options)
        return {"graph": graph, "dump": dump}, dump.rstrip()
    from .kernel import kernels  # which loads the compiler

    found = kernels(
        model,
        arguments.target,
        shapes=shapes,
        tolerance=arguments.tolerance,
        threads=arguments.threads or 1,
        quantised=arguments.quantised,
        rounding=arguments.rounding,
        place=places_of(arguments),
        **bounds(arguments),
    )
    if arguments.place:
        rows, lines = placement(found, arguments.target)
        return {"placement": rows}, lines_text(lines)
    rows = [
        {
            "label": kernel.label,
            "multiply_adds": kernel.multiply_adds,
            "predicted_seconds": kernel.predicted_seconds,
            "trace": kernel.trace,
        }
        for kernel in found
    ]
    text = [
        f"{i:4d}  {row['multiply_adds'] / 1e6:10.2f} M multiply-adds  predicted "
        f"{row['predicted_seconds'] * 1e6:10.1f} us  {row['label']}"
        for i, row in enumerate(rows)
    ]
    total = sum(row["multiply_adds"] for row in rows)
    text.append(
        f"{len(rows)} kernels, {total / 1e6:.1f} M multiply-adds; --kernel NUMBER shows one, "
        "--dump=PASS|all the graph after passes, --dump=plan steps and memory"
    )
    arithmetic, lines = compiler.arithmetic(source_of(model), options)
    text += arithmetic_text(arguments.quantised, lines) if lines else []
    return {
        "kernels": rows,
        "quantised": arguments.quantised,
        "arithmetic": arithmetic,
    }, lines_text(text)


def add_command(command):
    added = command("inspect", _inspect, "Show what the compiler does.", MODEL_OR_ARTEFACT)
    add_compiling(added)
    add_bounds(added)
    add_size_versions(added)
    add_examples(added)
    added.add_argument(
        "--kernel",
        help="a kernel's number or label: statements, trace, tree, "
        "loops, assembly; default and llvm where --dump asks",
    )
    added.add_argument(
        "--dump",
        metavar="WHAT",
        help="a graph pass, all of them, or plan (steps and memory); with --kernel "
        "one of its texts or all",
    )
    add_place(added)
    added.add_argument("--no-time", action="store_true", help="do not time the kernel")
