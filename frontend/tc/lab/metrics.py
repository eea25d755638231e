"""What the lab follows, in Prometheus' form."""

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

CONTENT_TYPE = CONTENT_TYPE_LATEST
_STATES = ("free", "leased", "quarantined")
# {key of the tracker's counters: (name, text)}
_COUNTERS = {
    "announcements": ("announcements", "Signs of life of agents."),
    "leases": ("leases", "Leases of devices."),
    "without_device": ("clients_without_device", "Clients that got no device, or gave up."),
    "failures": ("failures", "Failures of devices that clients reported."),
    "measured": ("measured", "Candidates that the devices measured."),
    "waited_seconds": ("waited_seconds", "What clients waited for their devices, together."),
}
# {key of a device: (name, text)}
_GAUGES = {
    "measured": ("device_measured", "Candidates since the agent was started."),
    "seconds_since_heartbeat": ("device_silence_seconds", "Since its last sign of life."),
    "lease_seconds": ("device_lease_seconds", "How long its lease has been held; 0 without one."),
    "waiting_count": ("device_waiting", "Clients that could use it and wait."),
    "load": ("device_load", "Processes of its machine that run or want to."),
    "celsius": ("device_celsius", "Of the warmest part of its processor."),
    "gigahertz": ("device_gigahertz", "Present frequency of its fastest core."),
}


class _Collector:
    def __init__(self, lab):
        self._lab = lab

    def collect(self):
        records = GaugeMetricFamily("tc_log_records", "Records of a log.", labels=["log", "number"])
        for number, follower in enumerate(self._lab.followers):
            records.add_metric([follower.name, str(number)], len(follower.state.entries))
        yield records
        if self._lab.fleet:
            yield from _of_fleet(self._lab.fleet)


def _of_fleet(fleet):
    up = GaugeMetricFamily("tc_tracker_up", "Whether the tracker answers.", labels=["tracker"])
    up.add_metric([fleet.tracker], 0 if fleet.problem else 1)
    yield up
    states = GaugeMetricFamily("tc_devices", "Devices by state.", labels=["state"])
    for state in _STATES:
        states.add_metric([state], sum(row["state"] == state for row in fleet.rows))
    yield states
    if fleet.counters:
        waiting = GaugeMetricFamily("tc_tracker_waiting", "Clients that wait for devices.")
        waiting.add_metric([], fleet.counters["waiting"])
        yield waiting
    for key, (name, text) in _COUNTERS.items():
        if key in fleet.counters:
            counter = CounterMetricFamily(f"tc_tracker_{name}", text)
            counter.add_metric([], fleet.counters[key])
            yield counter
    for key, (name, text) in _GAUGES.items():
        gauge = GaugeMetricFamily(f"tc_{name}", text, labels=["device"])
        for row in fleet.rows:
            if row.get(key) is not None:
                gauge.add_metric([row["name"]], row[key])
        yield gauge


def text_of(lab):
    """The present values of all that the lab follows, as bytes."""
    registry = CollectorRegistry()
    registry.register(_Collector(lab))
    return generate_latest(registry)
