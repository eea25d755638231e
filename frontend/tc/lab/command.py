"""The command `python -m tc lab`."""

from ..errors import LogError
from ..fleet import add_credentials
from ..files import default_log
from ..parser import add_listener, number


def _lab(arguments):
    from .server import serve  # needs the packages of the extra lab
    from .fleet_view import Fleet
    from .lab import Lab

    log = arguments.log or default_log()
    if log is None:
        raise LogError("no log is named: give --log URL, or set TC_LOG")
    fleet = None
    if arguments.tracker:
        fleet = Fleet(arguments.tracker, arguments.credentials, arguments.insecure)
    lab = Lab([log, *arguments.against], arguments.report, fleet, arguments.budget)
    url = serve(lab, arguments)
    records = [len(follower.state.entries) for follower in lab.followers]
    return {"url": url, "records": records}, f"shown: {sum(records)} records"


def add_command(command):
    added = command(
        "lab", _lab, "Show logs of tuning and a tracker's devices as web pages, while it happens."
    )
    added.add_argument(
        "--log", metavar="URL", help="default: $TC_LOG, else the user's cache folder"
    )
    added.add_argument(
        "--against",
        action="append",
        default=[],
        metavar="URL",
        help="another log, to compare with; may be given several times",
    )
    added.add_argument(
        "--report",
        action="append",
        default=[],
        metavar="FILE",
        help="what `report MODEL --json` wrote: its roofline, steps, memory, graph and errors are shown, and "
        "how often it calls each kernel counts; may be given several times",
    )
    added.add_argument(
        "--budget",
        type=number(float, 0, "a number"),
        metavar="SECONDS",
        help="the time limit of the tuning, of which the rest is shown",
    )
    added.add_argument("--tracker", metavar="HOST:PORT", help="show this tracker's devices")
    add_credentials(added)
    add_listener(added, 8081)
    added.add_argument(
        "--token-file",
        metavar="FILE",
        help="a file with the token that has to be shown; default: $TC_LAB_TOKEN, else one that is "
        "drawn and printed at the start",
    )
    added.add_argument(
        "--no-token",
        action="store_true",
        help="show it to whoever asks; not where other machines can",
    )
