// SPDX-License-Identifier: MIT
#include "issue_requests.hpp"

#include <stdexcept>
#include <variant>

#include "instruction_facts.hpp"
#include "scheduler/core/base/overloaded.hpp"

namespace celerity {

namespace {

/// A copy engine or a thread of the host is busy with so many bytes for a few microseconds.
constexpr std::uint64_t most_brief_bytes = 16384;

} // namespace

issue_request make_request(const instruction& item, const request_rules& rules) {
	issue_request request;
	request.id = item.id;
	request.key = item.key;
	request.priority = item.priority;
	request.dependencies = item.dependencies;
	request.payload = &item;
	const auto to_lane = [&](const std::uint32_t lane_class, const issue_policy policy = issue_policy::plain) {
		request.policy = policy;
		request.lane_class = lane_class;
	};
	std::visit(overloaded{
	               [&](const copy_instruction& copy) {
		               to_lane(rules.devices.copy_class(copy.source.memory, copy.destination.memory));
		               request.is_brief = size_bytes_of(copy) <= most_brief_bytes;
	               },
	               [&](const gather_copy_instruction& copy) { to_lane(rules.devices.gather_class(copy.destination.memory)); },
	               [&](const reduce_instruction& reduce) {
		               if(is_device_memory(reduce.source.memory)) to_lane(rules.devices.gather_class(reduce.source.memory));
	               },
	               [&](const device_kernel_instruction& kernel) {
		               if(kernel.device.value >= rules.num_devices) throw std::logic_error("a kernel for a device that does not exist");
		               const bool is_native = rules.launches.find(kernel.submission) != nullptr;
		               const auto by_launcher = rules.devices.defers_kernels() ? issue_policy::deferred : issue_policy::launched;
		               to_lane(rules.devices.kernel_class(kernel.device, kernel.is_border, queue_priority_of(item.priority)),
		                   is_native ? issue_policy::plain : by_launcher);
	               },
	               [&](const send_instruction& send) {
		               if(rules.direct.is_direct(send)) to_lane(rules.direct.lanes->signal_class(send.source.memory), issue_policy::signal);
	               },
	               [&](const receive_instruction& receive) {
		               if(rules.direct.has_peers()) to_lane(rules.direct.lanes->pull_class(receive.destination.memory), issue_policy::pull);
	               },
	               [&](const split_receive_instruction&) {
		               if(rules.direct.has_peers()) throw std::logic_error("a rank with direct peers receives where it reads, never in parts");
	               },
	               [&](const horizon_instruction&) { request.policy = issue_policy::clock; },
	               [&](const epoch_instruction& epoch) {
		               // A barrier is an operation of the host. Its successors must not be issued before it completes.
		               const bool is_barrier = epoch.action == epoch_action::barrier && rules.num_ranks > 1;
		               if(!is_barrier) request.policy = issue_policy::clock;
	               },
	               [](const auto&) {}, // by the host
	           },
	    item.operation);
	return request;
}

} // namespace celerity
