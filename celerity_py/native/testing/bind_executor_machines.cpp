// SPDX-License-Identifier: MIT
// The pure machines of the executor, for tests and for the simulation of many ranks in one process.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include "executor/core/engine/out_of_order_engine.hpp"
#include "executor/core/transfers/receive_arbiter.hpp"
#include "flat_values.hpp"
#include "testing_bindings.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {
namespace {

using lane_class_tuple = std::tuple<std::string, std::uint32_t, std::uint32_t, std::uint32_t>;

std::vector<lane_class> make_lane_classes(const std::vector<lane_class_tuple>& tuples, const std::uint32_t most_shared) {
	std::vector<lane_class> classes;
	for(const auto& [kind, device, size, domain] : tuples) {
		classes.push_back({look_up<lane_kind>(kind, "a kind of lane"), device_id(device), size, domain, most_shared});
	}
	return classes;
}

class python_engine {
  public:
	python_engine(const std::vector<lane_class_tuple>& classes, const std::string& remote, const bool lanes_wait, const std::uint32_t most_shared,
	    const std::string& order)
	    : m_engine(make_lane_classes(classes, most_shared),
	          {look_up<remote_waits>(remote, "what lanes wait for"), lanes_wait, look_up<kernel_order>(order, "an order of kernels")}) {}

	void submit(const std::uint64_t id, const instruction_priority priority, const flat_key& key, const std::vector<std::uint64_t>& dependencies,
	    const std::string& policy, const std::uint32_t lane_class, const bool is_brief) {
		std::vector<instruction_id> ids;
		for(const auto dependency : dependencies) ids.push_back(instruction_id(dependency));
		m_engine.submit({instruction_id(id), unflatten(key), priority, ids, look_up<issue_policy>(policy, "a policy"), lane_class, nullptr, 1, is_brief});
		m_engine.validate();
	}

	nb::object next() {
		issue issued;
		const bool has_issued = m_engine.next(issued);
		m_engine.validate();
		if(!has_issued) return nb::none();
		nb::list waits;
		for(const auto& wait : issued.waits) waits.append(nb::make_tuple(wait.lane, wait.sequence));
		nb::list signals;
		for(const auto id : issued.signals) signals.append(id.value);
		m_depends_on_one = issued.depends_on_one;
		return nb::make_tuple(issued.id.value, issued.lane == no_lane ? -1 : static_cast<int>(issued.lane), issued.sequence, waits, signals);
	}

	std::vector<std::uint64_t> complete(const std::uint64_t id) {
		m_engine.complete(instruction_id(id));
		return take_completed();
	}

	std::vector<std::uint64_t> complete_lane(const lane_index lane, const std::uint64_t sequence) {
		if(lane >= m_engine.lanes().num_lanes() || sequence > m_engine.lanes().issued(lane)) throw nb::index_error("nothing was issued there");
		m_engine.complete_lane(lane, sequence);
		return take_completed();
	}

	std::vector<std::uint64_t> take_completed() {
		m_engine.validate();
		std::vector<out_of_order_engine::completed_instruction> completed;
		m_engine.take_completed(completed);
		std::vector<std::uint64_t> ids;
		for(const auto& item : completed) ids.push_back(item.id.value);
		return ids;
	}

	std::vector<std::uint64_t> live(const bool issued) const {
		std::vector<std::uint64_t> ids;
		m_engine.for_each_live([&](const out_of_order_engine::live_instruction& item) {
			if(item.is_issued == issued && (!issued || item.policy != issue_policy::clock)) ids.push_back(item.id.value);
		});
		return ids;
	}

	void change(const auto& make_change) {
		make_change(m_engine);
		m_engine.validate();
	}
	bool depended_on_one() const { return m_depends_on_one; }
	out_of_order_engine& engine() { return m_engine; }
	const out_of_order_engine& engine() const { return m_engine; }

  private:
	out_of_order_engine m_engine;
	bool m_depends_on_one = false;
};

void bind_engine(nb::module_& m) {
	nb::class_<python_engine>(m, "Engine",
	    R"(The out-of-order engine, a pure machine: decides which instruction is issued next, on which lane, and after which others.

Lane classes are (kind, device, number of lanes, domain); lanes are numbered through all classes in order, and lanes of one domain can wait for each
other without the host. Drive it by submitting instructions, executing what next() hands out (each lane in order, an instruction only when its waits are
reached), and reporting complete(). Not thread-safe.)")
	    .def(nb::init<const std::vector<lane_class_tuple>&, const std::string&, bool, std::uint32_t, const std::string&>(), "lane_classes"_a, nb::kw_only(),
	        "remote"_a = "pulls", "lanes_wait"_a = true, "most_shared"_a = 0, "order"_a = "age",
	        "most_shared: see lane_class, for all classes. order: \"age\", \"path\" or \"predecessors\".")
	    .def("submit", &python_engine::submit, "id"_a, "priority"_a, "key"_a, "dependencies"_a, "policy"_a, "lane_class"_a = 0, "is_brief"_a = false,
	        R"(Adds an instruction. Ids must grow; dependencies that are not live count as complete.

Args:
    id: The instruction.
    priority: Higher is issued first among issuable instructions: 32 times the priority of the queue, plus that of the kind, from 0 to 31.
    key: (task, "send" | "receive" | "work"): the order in which remote waits may be issued.
    dependencies: Ids of predecessors.
    policy: "host", "clock", or for lanes "plain", "launched", "deferred", "signal" or "pull"; see issue_policy in issue_request.hpp.
    lane_class: Index of the class, for lanes.
    is_brief: See issue_request.)")
	    .def("next", &python_engine::next, nb::sig("def next(self) -> tuple[int, int, int, list[tuple[int, int]], list[int]] | None"),
	        "(id, lane, sequence, [(lane, sequence), ...] to wait for first, signals likewise) of the issuable instruction of highest priority, or None. The lane is -1 for the host.")
	    .def_prop_ro("depended_on_one", &python_engine::depended_on_one, "Whether the latest instruction of next() depends on its one wait only.")
	    .def(
	        "announce", [](python_engine& self, const queue_priority queue) { self.engine().announce(queue); }, "queue"_a,
	        "There is a queue of this priority; see issue_turns.hpp.")
	    .def(
	        "notify_issued",
	        [](python_engine& self, const std::uint64_t id) { self.change([&](out_of_order_engine& engine) { engine.notify_issued(instruction_id(id)); }); },
	        "id"_a, "A deferred instruction has been enqueued on its lane.")
	    .def(
	        "release",
	        [](python_engine& self, const std::uint64_t id, const bool is_ready) {
		        self.change([&](out_of_order_engine& engine) { engine.release(instruction_id(id), is_ready); });
	        },
	        "id"_a, "is_ready"_a = false, "Ends the hold of a signal or pull. A pull that is ready need not respect the order of keys: its data is in place.")
	    .def(
	        "allow_remote_waits", [](python_engine& self, const bool allowed) { self.engine().allow_remote_waits(allowed); }, "allowed"_a,
	        "Whether next() may hand out remote waits.")
	    .def(
	        "allow_lanes", [](python_engine& self, const bool allowed) { self.engine().allow_lanes(allowed); }, "allowed"_a,
	        "Whether next() may hand out instructions for lanes.")
	    .def("complete_lane", &python_engine::complete_lane, "lane"_a, "sequence"_a,
	        "The lane has come past everything up to `sequence`. Returns all ids that are complete by it, as complete() does.")
	    .def("complete", &python_engine::complete, "id"_a,
	        "Reports completion, in any order. Returns all ids that are complete by it, predecessors first: also older ones of its lane, and horizons and epochs.")
	    .def("take_completed", &python_engine::take_completed, "Ids that became complete in submit(), next() or notify_issued(): horizons and epochs.")
	    .def(
	        "unissued", [](const python_engine& self) { return self.live(false); }, "Ids of live instructions that next() has not handed out.")
	    .def(
	        "in_flight", [](const python_engine& self) { return self.live(true); }, "Ids handed out and not complete.")
	    .def_prop_ro(
	        "num_live", [](const python_engine& self) { return self.engine().num_live(); }, "Submitted and not complete.")
	    .def_prop_ro("num_in_flight", [](const python_engine& self) { return self.engine().num_in_flight(); }, "Handed out and not complete.");
}

// ---- receive arbiter ------------------------------------------------------------------------------------------------------------

class python_arbiter {
  public:
	void receive(const std::uint64_t id, const flat_transfer& transfer, const std::vector<flat_box>& boxes, const flat_allocation& destination,
	    const std::size_t element_size) {
		const auto storage = unflatten(boxes);
		m_arbiter.receive(instruction_id(id), {unflatten(transfer), storage, unflatten(destination), element_size});
	}
	void split_receive(const std::uint64_t id, const flat_transfer& transfer, const std::vector<flat_box>& boxes, const flat_allocation& destination,
	    const std::size_t element_size) {
		const auto storage = unflatten(boxes);
		m_arbiter.split_receive(instruction_id(id), {unflatten(transfer), storage, unflatten(destination), element_size});
	}
	void await_receive(const std::uint64_t id, const flat_transfer& transfer, const flat_allocation& destination, const std::vector<flat_box>& boxes) {
		const auto storage = unflatten(boxes);
		m_arbiter.await_receive(instruction_id(id), {unflatten(transfer), unflatten(destination), storage});
	}
	void receive_partials(const std::uint64_t id, const flat_transfer& transfer, const flat_allocation& destination, const std::size_t bytes_per_slot,
	    const std::vector<std::uint32_t>& sources, const std::vector<std::uint32_t>& slots) {
		if(sources.size() != slots.size()) throw std::invalid_argument("one slot per source");
		std::vector<rank_id> ranks;
		for(const auto source : sources) ranks.push_back(rank_id(source));
		m_arbiter.receive_partials(instruction_id(id), {unflatten(transfer), unflatten(destination), bytes_per_slot, ranks, slots});
	}
	void pilot(const std::uint32_t source, const std::uint64_t message, const flat_transfer& transfer, const flat_box& sent_box) {
		m_arbiter.pilot(rank_id(source), message_id(message), unflatten(transfer), unflatten(sent_box));
	}

	nb::list take_posts() {
		std::vector<posted_receive> posts;
		m_arbiter.take_posts(posts);
		nb::list result;
		for(const auto& post : posts) {
			nb::dict entry;
			entry["fragment"] = post.fragment.value;
			entry["instruction"] = post.instruction.value;
			entry["source"] = post.source.value;
			entry["message"] = post.message.value;
			entry["transfer"] = nb::cast(flatten(post.transfer));
			entry["destination"] = nb::cast(flatten(post.destination));
			entry["box"] = nb::cast(flatten(post.part));
			entry["message_box"] = nb::cast(flatten(post.message_box));
			entry["offset_bytes"] = post.offset_bytes;
			entry["element_size"] = post.element_size_bytes;
			result.append(entry);
		}
		return result;
	}
	std::vector<std::uint64_t> take_completed() {
		std::vector<instruction_id> completed;
		m_arbiter.take_completed(completed);
		std::vector<std::uint64_t> ids;
		for(const auto id : completed) ids.push_back(id.value);
		return ids;
	}

	receive_arbiter& arbiter() { return m_arbiter; }
	const receive_arbiter& arbiter() const { return m_arbiter; }

  private:
	receive_arbiter m_arbiter;
};

void bind_arbiter(nb::module_& m) {
	nb::class_<python_arbiter>(m, "ReceiveArbiter",
	    R"(Brings together requests to receive, pilots, and arrived payloads, in whatever order they come. A pure machine.

Boxes are flat 6-tuples (min0, min1, min2, max0, max1, max2), transfers (consumer task, buffer, reduction), allocations (memory, raw). Not thread-safe.)")
	    .def(nb::init<>())
	    .def("receive", &python_arbiter::receive, "id"_a, "transfer"_a, "boxes"_a, "destination"_a, "element_size"_a,
	        "Instruction `id` completes when all of `boxes` have arrived. Requests of one transfer are disjoint.")
	    .def("split_receive", &python_arbiter::split_receive, "id"_a, "transfer"_a, "boxes"_a, "destination"_a, "element_size"_a,
	        "Instruction `id` completes at once; its parts are awaited one by one.")
	    .def("await_receive", &python_arbiter::await_receive, "id"_a, "transfer"_a, "destination"_a, "boxes"_a,
	        "Instruction `id` completes when all of `boxes` of earlier split receives into `destination` have arrived.")
	    .def("receive_partials", &python_arbiter::receive_partials, "id"_a, "transfer"_a, "destination"_a, "bytes_per_slot"_a, "sources"_a, "slots"_a,
	        "Instruction `id` completes when each rank of `sources` has filled its slot.")
	    .def("pilot", &python_arbiter::pilot, "source_rank"_a, "message"_a, "transfer"_a, "sent_box"_a,
	        "Rank `source_rank` announces that `message` will carry `sent_box`.")
	    .def("take_posts", &python_arbiter::take_posts, nb::sig("def take_posts(self) -> list[dict[str, typing.Any]]"),
	        R"(The receives to post since the last call: dicts with

"fragment" (handle for complete()), "instruction", "source", "message", "transfer", "destination", "box" (the part to receive),
"message_box" (of the whole message), "offset_bytes" and "element_size". For partial results the boxes are one element as large as a slot, and offset_bytes says
where the slot begins; otherwise offset_bytes is 0.)")
	    .def(
	        "complete", [](python_arbiter& self, const std::uint64_t fragment) { self.arbiter().complete(fragment_id(fragment)); }, "fragment"_a,
	        "The payload of a post has arrived.")
	    .def("take_completed", &python_arbiter::take_completed, "Instructions that became complete since the last call.")
	    .def_prop_ro(
	        "num_open", [](const python_arbiter& self) { return self.arbiter().num_open(); }, "Requests and awaits that are not complete.")
	    .def_prop_ro(
	        "num_unclaimed_pilots", [](const python_arbiter& self) { return self.arbiter().unclaimed_pilots().size(); },
	        "Pilots with a part that no request has taken.");
}

} // namespace

void bind_executor_machines(nb::module_& m) {
	bind_engine(m);
	bind_arbiter(m);
}

} // namespace celerity::native
