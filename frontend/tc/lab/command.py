"""The command `python -m tc lab`."""

from ..errors import LogError
from ..log import default_url
from ..parser import number


def _lab(arguments):
    from .server import serve  # needs the packages of the extra lab
    from .fleet_view import Fleet
    from .lab import Lab

    log = arguments.log or default_url()
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
    added.add_argument(
        "--credentials", metavar="FOLDER", help="default: $TC_CREDENTIALS, else ~/.config/tc"
    )
    added.add_argument(
        "--insecure",
        action="store_true",
        help="plain text, to a tracker of this machine started so",
    )
    added.add_argument(
        "--port",
        type=number(int, 0, "a whole number"),
        default=8081,
        help="default 8081; 0 takes a free one",
    )
    added.add_argument(
        "--host",
        default="127.0.0.1",
        metavar="ADDRESS",
        help="default 127.0.0.1, which this machine alone can reach",
    )
    added.add_argument(
        "--allow-host",
        action="append",
        default=[],
        metavar="NAME",
        help="a name that requests may have in their Host header, beside localhost "
        "and addresses; may be given several times",
    )
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
