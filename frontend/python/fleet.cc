#include "frontend/python/fleet.h"

#include <string>
#include <vector>

#include <pybind11/stl.h>

#include "frontend/python/errors.h"
#include "tuner/client.h"

namespace tc {
namespace {

namespace py = pybind11;

std::vector<std::string> words(const google::protobuf::RepeatedPtrField<std::string>& list) {
  return {list.begin(), list.end()};
}

py::dict row_of(const rpc::DeviceState& state) {
  const rpc::DeviceInfo& device = state.device();
  py::dict row;
  row["name"] = device.name();
  row["state"] = state.state();
  row["client"] = state.client();
  row["address"] = device.address();
  row["runner"] = device.runner();
  row["unit"] = device.unit();
  row["architecture"] = device.architecture();
  row["features"] = words(device.features());
  row["processor"] = device.processor();
  row["cores"] = device.cores();
  row["vector_bits"] = device.vector_bits();
  row["l1_bytes"] = device.l1_bytes();
  row["l2_bytes"] = device.l2_bytes();
  row["l3_bytes"] = device.l3_bytes();
  row["clock_ghz"] = device.clock_ghz();
  row["memory_bytes"] = device.memory_bytes();
  row["isolation"] = words(device.isolation());
  row["lacks"] = words(device.lacks());
  row["key"] = device.key();
  row["build"] = device.version().build();
  row["measured"] = state.measured();
  row["certificate_ends"] = state.certificate_ends();
  row["seconds_since_heartbeat"] = state.seconds_since_heartbeat();
  row["lease_seconds"] = state.lease_seconds();
  row["longest_lease_seconds"] = state.longest_lease_seconds();
  py::list waiting;
  for (const rpc::WaitingClient& one : state.waiting()) {
    py::dict client;
    client["client"] = python_text(one.client());
    client["seconds"] = one.seconds();
    client["seconds_left"] = one.seconds_left();
    client["priority"] = one.priority();
    waiting.append(client);
  }
  row["waiting"] = waiting;
  row["waiting_count"] = state.waiting_count();
  const rpc::Condition& condition = state.condition();
  const auto known = [](bool has, double value) { return has ? py::object(py::float_(value)) : py::none(); };
  row["load"] = known(condition.has_load(), condition.load());
  row["celsius"] = known(condition.has_celsius(), condition.celsius());
  row["gigahertz"] = known(condition.has_gigahertz(), condition.gigahertz());
  return row;
}

py::dict counters_of(const rpc::FleetCounters& counters) {
  py::dict row;
  row["announcements"] = counters.announcements();
  row["leases"] = counters.leases();
  row["without_device"] = counters.without_device();
  row["failures"] = counters.failures();
  row["measured"] = counters.measured();
  row["waited_seconds"] = counters.waited_seconds();
  row["waiting"] = counters.waiting();
  row["seconds"] = counters.seconds();
  return row;
}

}  // namespace

void add_fleet(py::module_& module) {
  module.def(
      "credentials_warning",
      [](const std::string& address, const std::string& credentials) {
        return TrackerClient(address, credentials).warning();
      },
      py::arg("address"), py::arg("credentials"));
  module.def(
      "tracker_state",
      [](const std::string& address, const std::string& credentials) {
        rpc::DevicesReply reply;
        {
          const py::gil_scoped_release release;
          reply = TrackerClient(address, credentials).state();
        }
        py::list rows;
        for (const rpc::DeviceState& state : reply.devices()) rows.append(row_of(state));
        py::dict state;
        state["devices"] = rows;
        state["counters"] = counters_of(reply.counters());
        return state;
      },
      py::arg("address"), py::arg("credentials"));
}

}  // namespace tc
