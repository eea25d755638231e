"""The pages of the lab with a server as one starts it: what they show, that each number leads to
its records, that changes arrive."""

import json
import os
import shutil
import subprocess
import sys
import time

import pytest

import tc

for package in "starlette", "uvicorn":
    pytest.importorskip(package, reason=f"{package} is not installed")
from tc.lab.records import Reading  # noqa: E402
from tc.lab.views.progress import _since  # noqa: E402

from ..reporting.pages import Page  # noqa: E402
from .labs import BEGAN, Server, add, addresses_in, row, some_rows, workload  # noqa: E402

PATHS = (
    "/",
    "/kernels",
    "/failures",
    "/devices",
    "/budget",
    "/roofline",
    "/steps",
    "/memory",
    "/graph",
    "/errors",
    "/history",
    "/compare",
    "/records",
)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    path = tmp_path_factory.mktemp("lab") / "log.db"
    add(path, some_rows())
    return path


@pytest.fixture(scope="module")
def server(log):
    with Server("--log", log, "--budget", "7200") as running:
        yield running


def text_of(markup):
    read = Page(markup.replace("<link ", "<meta ").replace("<input ", "<meta "))
    assert read.faults == []
    return " ".join(read.text().split())


def test_every_page_is_whole_and_leads_to_all_views(server):
    for path in PATHS:
        markup = server.page(path)
        text_of(markup)
        assert {each.partition("?")[0] for each in addresses_in(markup)} >= set(PATHS), path
        assert markup.count("<h1>") == 1 and 'aria-current="page"' in markup


def test_every_address_on_every_page_has_an_answer(server):
    seen, left = set(), list(PATHS)
    while left:
        path = left.pop()
        if path in seen or "/code" in path:  # code takes a second each; tested below
            continue
        seen.add(path)
        status, headers, text = server.ask(path)
        assert status == 200, (path, text[:200])
        if headers["content-type"].startswith("text/html"):
            left += [each for each in addresses_in(text) if each not in seen]
    assert len(seen) > 60


def test_the_first_page_sums_up_the_place_with_most_records(server):
    shown = text_of(server.page("/"))
    # Kernel 0 takes 0.5 of its time, kernel 1 the chosen 0.9; the untuned ones have 100 and 200 µs.
    assert f"Gain {300 / (50 + 180):.2f}× best measured" in shown
    assert "Records 8 3 kernels" in shown and "Failed 2 25 %" in shown
    assert "Time left 1:58:25 of the budget" in shown
    assert "other place can be chosen above" in shown


def test_other_places_can_be_chosen_by_the_address(server):
    shown = text_of(server.page("/?target=rv64gcv"))
    assert "Records 1 1 kernel" in shown and "rv64/board" in shown
    assert "no record that fits" in text_of(server.page("/?target=nothing"))


def test_numbers_lead_to_the_records_behind_them(server):
    markup = server.page("/")
    to_failed = next(each for each in addresses_in(markup) if "outcome=failed" in each)
    shown = text_of(server.page(to_failed))
    assert "2 records" in shown and "wrong result" in shown and "crash" in shown
    to_record = next(each for each in addresses_in(server.page(to_failed)) if "/record/" in each)
    shown = text_of(server.page(to_record))
    assert "Outcome crash" in shown and "signal 11" in shown


def test_filters_combine(server):
    def count(query):
        shown = text_of(server.page(f"/records?{query}"))
        return 0 if "No record fits" in shown else int(shown.partition(" record")[0].split()[-1])

    def counted(query):
        heading = [
            each for each in Page(server.page(f"/records?{query}")).of("h2") if "record" in each
        ]
        return int(heading[0].split()[0])

    assert counted("") == 9 and counted("outcome=ok") == 7 and counted("outcome=chosen") == 1
    assert counted("build=0.2.0+bbbb&outcome=ok") == 2
    assert counted("target=rv64gcv") == 1 and counted("threads=2") == 0
    assert count("kernel=ffffffffffffffff") == 0
    # What is no number is as if it were not there.
    assert counted("threads=x&begin=-1&log=99999999999999999999") == 9


def test_failures_say_what_happened(server):
    shown = text_of(server.page("/failures"))
    newest = shown.partition("What the candidates said that failed last")[2]
    assert "crash signal 11" in newest and "wrong result element 3 is 7, not 8" in newest


def test_where_nothing_was_gained_the_pages_say_so(tmp_path):
    add(tmp_path / "log.db", [row(0, 1.0), row(0, 1.2, created=BEGAN + 60, trace=["unroll i0"])])
    with Server("--log", tmp_path / "log.db") as server:
        assert (
            "No schedule was faster than the untuned one so far: all curves are at 1."
            in text_of(server.page("/"))
        )
        assert "Last per cent – not one was gained so far" in text_of(server.page("/budget"))


def test_kernels_are_ordered_by_what_can_be_gained(server):
    end = time.monotonic() + 20
    while "Of limit" in (markup := server.page("/kernels")) and "are not known" in markup:
        assert time.monotonic() < end
        time.sleep(0.2)
    names = [
        each for each in Page(markup).texts if each[0] == "a" and each[1].startswith("product")
    ]
    assert names, "kernels are links"
    shown = text_of(markup)
    assert "Each kernel counts once" in shown
    assert "the most operations per time that any kernel of this log reached" in shown


def test_history_marks_what_became_slower(server):
    shown = text_of(server.page("/history"))
    assert "regression: 40 % slower" in shown
    assert "0.2.0 bbbb" in shown and shown.count("regression") == 1


def test_two_builds_are_compared_with_their_decisions(server):
    shown = text_of(server.page("/compare"))
    assert "1 won, 1 lost, 0 within the spread" in shown
    assert "-unroll b0.5" in shown and "+unroll b0.7" in shown
    assert shown.index("+40.0 %") < shown.index("-33.3 %"), "lost ones come first"


def test_two_logs_are_compared(log, tmp_path):
    add(tmp_path / "other.db", [row(0, 0.4), row(5, 0.5)])
    with Server("--log", log, "--against", tmp_path / "other.db") as running:
        shown = text_of(running.page("/compare"))
        assert "0 won, 1 lost, 0 within the spread; 1 only before, 1 only after" in shown
        assert "2 records" in text_of(
            running.page("/records?log=1&kernel=&threads=1&begin=0&outcome=ok")
        )


def test_a_kernel_has_decisions_loops_assembly_and_history(server):
    address = next(each for each in addresses_in(server.page("/kernels")) if "/kernel/" in each)
    markup = server.page(address)
    shown = text_of(markup)
    for part in ("Decisions", "split i0", "Statements", "kernel k", "History", "0.1.0 aaaa"):
        assert part in shown
    code = next(each for each in addresses_in(markup) if "/code" in each)
    shown = text_of(server.page(code))
    assert "There is none: the line 'split i0" in shown or "Assembly" in shown


def test_code_of_a_record(tmp_path):
    add(
        tmp_path / "log.db",
        [row(0, 0.8, trace=["split s0_i1 8 as a b", "vectorize b"], target="x86-64-v3")],
    )
    with Server("--log", tmp_path / "log.db") as running:
        markup = running.page("/record/1")
        code = next(each for each in addresses_in(markup) if "/code" in each)
        shown = text_of(running.page(code))
        assert "Loops" in shown and "Assembly" in shown and "ret" in shown and "for" in shown
        status, _, text = running.ask("/kernel/ffffffffffffffff/code?record=1")
        assert status == 404 and "no such record" in text


def test_an_unknown_page_record_and_kernel(server):
    for path, said in (
        ("/nothing", "there is no page '/nothing' here"),
        ("/record/999999", "has no record 999999"),
        ("/kernel/zz", "has no kernel zz"),
        ("/record/x", "there is no page"),
    ):
        status, _, text = server.ask(path)
        assert status == 404 and said in text, path


def test_records_that_are_added_are_told_and_shown_within_a_second(tmp_path):
    path = tmp_path / "log.db"
    add(path, [row(0, 1.0)])
    with Server("--log", path) as running, running.events() as following:
        first, took = following(), []
        assert b"event: change" in first and len(first) < 4096
        for number in range(3):
            begin = time.monotonic()
            add(path, [row(0, 0.9 - number / 10, created=BEGAN + number)])
            while b"change" not in (event := following()):
                assert time.monotonic() - begin < 5
            assert len(event) < 4096
            # Where the machine is busy, an event may tell of a change before.
            while f"Records {number + 2} " not in text_of(running.page("/")):
                assert time.monotonic() - begin < 5
            took.append(time.monotonic() - begin)
        assert min(took) < 1.0, "other programs of this machine may delay one"


def test_what_is_measured_again_or_chosen_is_shown_too(tmp_path):
    path = tmp_path / "log.db"
    add(path, [row(0, 1.0), row(0, 0.8)])
    with Server("--log", path) as running:
        add(path, [row(0, 0.8, median=5e-5, minimum=4.9e-5, chosen=True)])
        end = time.monotonic() + 15
        while "chosen" not in text_of(running.page("/record/2")):
            assert time.monotonic() < end
            time.sleep(0.2)
        assert "50.0 µs" in text_of(running.page("/record/2"))


def test_a_log_that_goes_and_comes_back(tmp_path):
    path = tmp_path / "log.db"
    add(path, [row(0, 1.0)])
    with Server("--log", path) as running:
        path.rename(tmp_path / "away.db")
        end = time.monotonic() + 15
        while "not read at the moment" not in (shown := text_of(running.page("/"))):
            assert time.monotonic() < end
            time.sleep(0.2)
        assert "Records 1 " in shown, "what was read before stays"
        add(path, [row(0, 1.0), row(0, 0.5), row(1, 0.5)])
        while "Records 3 " not in (shown := text_of(running.page("/"))):
            assert time.monotonic() < end + 15, shown
            time.sleep(0.2)
        assert "not read at the moment" not in shown


def test_a_report_gives_the_views_of_a_model(tmp_path):
    pytest.importorskip("onnx")
    from ..tuner.test_tune import small_model

    import onnx

    model, log = tmp_path / "small.onnx", tmp_path / "log.db"
    onnx.save(small_model(), str(model))
    tc.tune(model, threads=1, trials=6, log=log)
    made = subprocess.run(
        [sys.executable, "-m", "tc", "report", model, "--threads", "1", "--log", log]
        + ["--verify", "--seconds", "0.05", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    facts = json.loads(made.stdout)
    assert all(step["workload"] for step in facts["steps"] if step["report"] is not None)
    (tmp_path / "small.json").write_text(made.stdout)
    with Server("--log", log, "--report", tmp_path / "small.json") as running:
        assert "Tuning small" in text_of(running.page("/"))
        shown = text_of(running.page("/kernels"))
        assert "Kernels count as often as" in shown and "the limits that the report" in shown
        for path, part in (
            ("/roofline", "Peak speeds"),
            ("/steps", "Times, work and limits"),
            ("/memory", "Values in the arena"),
            ("/graph", "Each box is a step"),
            ("/errors", "Values, largest error first"),
        ):
            markup = running.page(path)
            assert part in text_of(markup), path
            assert any("/kernel/" in each for each in addresses_in(markup)) or path not in (
                "/steps",
                "/roofline",
            )


@pytest.mark.parametrize(
    "content, said",
    [
        (b"{", "it is not JSON"),
        (b"[" * 100_000, "it is not JSON"),
        (b"[]", "it is not of format 1"),
        (b'{"format": 2}', "it is not of format 1"),
        (b'{"format": 1, "subject": "session"}', "it is not of a model"),
        (b'{"format": 1, "subject": "model"}', "KeyError 'summary'"),
        (b'{"format": 1, "subject": "model", "summary": 7}', "TypeError"),
    ],
)
def test_what_is_no_report_is_refused(log, tmp_path, content, said):
    path = tmp_path / "report.json"
    path.write_bytes(content)
    done = subprocess.run(
        [sys.executable, "-m", "tc", "lab", "--log", log, "--report", path, "--port", "0"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 1 and "is no report that can be shown" in done.stderr
    assert said in done.stderr and len(done.stderr) < 2000


def test_a_report_without_end_is_refused(tmp_path):
    from tc.lab.reports import Report

    path = tmp_path / "report.json"
    path.touch()
    os.truncate(path, (32 << 20) + 1)
    with pytest.raises(tc.ModelError, match="has more than 32 MiB, which no report has"):
        Report(path)


def test_code_that_is_not_made_is_told(monkeypatch):
    from tc.lab import code

    with pytest.raises(tc.Error, match="kernel"):
        code.code_of("no kernel", "x86-64-v3", "")
    monkeypatch.setattr(code, "_SECONDS", 0.001)
    with pytest.raises(tc.Error, match="it took longer than 0.001 seconds"):
        code.code_of("no kernel", "x86-64-v3", "")
    monkeypatch.setattr(code, "_SECONDS", 20)
    monkeypatch.setattr(sys, "executable", "/bin/false")
    with pytest.raises(tc.Error, match="the process that makes it ended with code 1"):
        code.code_of("no kernel", "x86-64-v3", "")


def test_operations_are_counted_by_another_process(monkeypatch, tmp_path):
    from tc.lab import code, following

    kernels = [(workload(0), "x86-64-v3"), ("no kernel", "x86-64-v3"), (workload(1), "none")]
    assert code.operations_of(kernels) == [2 * 8 * 16 * 32, 0, 0]
    add(tmp_path / "log.db", [row(0), row(1), row(2)])
    follower = following.Follower(str(tmp_path / "log.db"))
    follower.load()
    # The process ends at the second kernel, of which it then is said that they are not known.
    monkeypatch.setattr(
        following, "operations_of", lambda kernels: [7.0] if len(kernels) > 1 else [8.0]
    )
    follower.count_operations()
    assert list(follower.operations.values()) == [7.0, 0.0]
    follower.count_operations()
    assert list(follower.operations.values()) == [7.0, 0.0, 8.0]
    monkeypatch.setattr(code, "_SECONDS", 0.001)
    assert code.operations_of(kernels) == []


def test_devices_of_a_tracker(log):
    from tc import fleet

    with (
        fleet.Local(["--name", "one"]) as programs,
        Server("--log", log, "--tracker", programs.address, "--insecure") as running,
    ):
        end = time.monotonic() + 15
        while "one free" not in (shown := text_of(running.page("/devices"))):
            assert time.monotonic() < end, shown
            time.sleep(0.2)
        assert "Devices busy 0 of 1" in text_of(running.page("/"))
    with Server("--log", log, "--tracker", "127.0.0.1:1", "--insecure") as running:
        end = time.monotonic() + 30
        while "127.0.0.1:1" not in (shown := text_of(running.page("/devices"))):
            assert time.monotonic() < end
            time.sleep(0.2)
        assert "The tracker is not reached at the moment" in shown


@pytest.mark.skipif(shutil.which("psql") is None, reason="PostgreSQL is not installed")
def test_a_log_on_a_server(tmp_path):
    from ..tuner.postgres import Server as Postgres

    with Postgres() as postgres:
        database = postgres.database()
        url = postgres.made(database)
        add(url, some_rows())
        with Server("--log", url) as running, running.events() as following:
            following()
            assert "Records 8 " in text_of(running.page("/"))
            assert "tc_admin@" in running.page("/") and ":admin@" not in running.page("/")
            begin = time.monotonic()
            add(url, [row(3, 0.5)])
            while b"change" not in following():
                pass
            assert "Records 9 " in text_of(running.page("/"))
            assert time.monotonic() - begin < 2.0


def test_all_is_read_again_while_new_records_are_shown(tmp_path, monkeypatch):
    from tc.lab import following

    monkeypatch.setattr(following, "_WHOLE_SECONDS", 0.0)
    monkeypatch.setattr(following, "_WHOLE_FACTOR", 0.0)
    monkeypatch.setattr(following, "_AGAIN", 1)
    monkeypatch.setattr(following, "_CHUNK", 2)
    monkeypatch.setattr(following, "_PAUSE", 0.0)
    path = str(tmp_path / "log.db")
    add(path, [row(number, 0.5) for number in range(9)])
    follower = following.Follower(path)
    follower.load()
    before = follower.version
    follower.look()
    assert follower.version == before, "nothing has changed"
    # The first record is chosen, far before the last ones, which alone are looked at again.
    add(path, [row(0, 0.5, chosen=True), row(10, 0.7)])
    follower.look()
    entries = follower.state.entries
    assert len(entries) == 10 and entries[1].chosen and follower.version > before
    group = follower.state.place()
    assert group.records == 10 and group.kernels[entries[1].kernel].chosen == entries[1]


def test_a_file_that_is_replaced_is_read_anew(tmp_path):
    from tc.lab.following import Follower

    path, other = tmp_path / "log.db", tmp_path / "other.db"
    add(path, [row(0, 0.5), row(1, 0.5)])
    add(other, [row(3, 0.25)])
    follower = Follower(str(path))
    follower.load()
    other.rename(path)
    follower.look()
    assert [entry.ratio for entry in follower.state.entries.values()] == [0.25]


def test_kernels_of_one_kind_and_of_the_same_sizes_are_told_apart():
    workloads = {}
    reading = Reading(workloads)
    most = workload(0).replace("+=", "max=")
    for text in most, most.replace("max", "min"), workload(1), most:
        reading.entry(1, row(workload=text))
    # More are read later.
    Reading(workloads).entry(9, row(workload=most.replace("= 0", "= 1")))
    assert [each.what for each in workloads.values()] == [
        "reduction 8x32, 32x16 -> 8x16",
        "reduction (2) 8x32, 32x16 -> 8x16",
        "product 9x32, 32x16 -> 9x16",
        "reduction (3) 8x32, 32x16 -> 8x16",
    ]


def test_how_long_ago_a_record_was_made_is_said_in_one_unit():
    words = [_since(seconds) for seconds in (0, 59, 60, 3599, 3600, 86399, 86400)]
    assert words == [
        "now",
        "now",
        "1 min ago",
        "59 min ago",
        "1:00 h ago",
        "23:59 h ago",
        "1 d ago",
    ]
