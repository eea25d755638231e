"""A report: the facts, and the page and the JSON made of them."""

import functools
import json

from ..errors import ShapeError, TargetError, printable
from ..files import write
from . import amounts
from .facts import FORMAT, Question, gather
from .notebook import report_table
from .page import page


class Report:
    """What is known of a compiled model or of a session of tuning: `facts` are values that JSON can
    represent, `html` the page."""

    def __init__(self, facts, profile=None):
        self.facts, self.profile = facts, profile

    @functools.cached_property
    def html(self):
        """The page: one file, which needs no network and no script."""
        return page(self.facts)

    def to_dict(self):
        return self.facts

    def save(self, path):
        """Writes the page."""
        write(path, self.html)

    def save_json(self, path):
        """Writes the facts, of which the page shows the most important part."""
        write(path, json.dumps(self.facts))

    def save_trace(self, path):
        """Writes the fastest run in Chrome's format, which https://ui.perfetto.dev opens."""
        if self.profile is None:
            raise TargetError(
                f"there is no trace of '{self.facts['summary']['model']}': it did not run here; "
                "make the report on a machine of its target"
            )
        self.profile.trace(path)

    def save_onnx(self, path):
        """Writes the plan's steps as an ONNX file for Netron. Its operators are kinds of kernels,
        in a domain of tc's own, so that no runtime runs it."""
        from .onnx_graph import onnx_graph

        write(path, onnx_graph(self.facts))

    def __repr__(self):
        summary = self.facts["summary"]
        time = summary.get("run_seconds")
        return (
            f"<tc.Report on {printable(summary['model'])} for {summary['target']}: "
            f"{amounts.of(len(self.facts['steps']), 'step')}"
            f"{'' if time is None else f', {amounts.seconds(time)}'}>"
        )

    def _repr_html_(self):
        return report_table(self)


def of_module(module, path=None, **asked):
    """See Module.report."""
    unknown = asked.keys() - Question.__dataclass_fields__.keys()
    if unknown:
        raise TypeError(f"report() got an unexpected keyword argument '{min(unknown)}'")
    question = Question(**asked)
    if not question.seconds >= 0:
        raise ShapeError(f"report: seconds is {question.seconds!r}; give a number of at least 0")
    report = Report(*gather(module, question))
    if path is not None:
        report.save(path)
    return report


def of_session(result, path=None):
    """See TuneResult.report."""
    from .provenance import session_provenance
    from .tuning_facts import of_session as tuning_of

    report = Report(
        {
            "format": FORMAT,
            "subject": "session",
            "summary": {"model": result.model, "target": result.target, "threads": result.threads},
            "limits": None,
            "peaks": {},
            "steps": [],
            "classes": [],
            "memory": None,
            "edges": [],
            "errors": None,
            "tuning": tuning_of(result),
            "provenance": session_provenance(result),
        }
    )
    if path is not None:
        report.save(path)
    return report
