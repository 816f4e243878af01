// SPDX-License-Identifier: MIT
// The executor as Python drives it. Everything that may block or work for long runs without the GIL, and no lock of the core is held while it is taken.
#include "bindings.hpp"

#include <nanobind/nanobind.h>
#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "executor/core/backends/cuda/cuda_backend.hpp"
#include "executor/core/loop/executor_loop.hpp"
#include "executor/core/memory/reduce_kernels.hpp"
#include "executor/core/threads/spin_flag.hpp"
#include "look_up.hpp"
#include "named_tuple.hpp"
#include "scheduler/core/pipeline/scheduler.hpp"
#include "scheduler/core/vocabulary/trace_recorder.hpp"
#include "seconds.hpp"
#include "bind_fields.hpp"
#include "submit/waiting.hpp"

namespace nb = nanobind;
using namespace nb::literals;

namespace celerity::native {
namespace {

/// Flags that the executor thread sets only when it lets go of the interpreter lock: a thread that waits for a flag would otherwise wait for the lock next.
struct set_on_release {
	bool is_executor = false;
	std::vector<std::pair<nb::handle, spin_flag*>> flags; ///< with a reference each; a thread that ends has no lock to drop one with
};
thread_local set_on_release held_flags;

void set_flag(const nb::handle self, const nb::handle /* source */) {
	auto& flag = *nb::inst_ptr<spin_flag>(self);
	if(held_flags.is_executor) {
		self.inc_ref();
		held_flags.flags.emplace_back(self, &flag);
	} else {
		flag.set();
	}
}

bool sleep_until_set(spin_flag& self, const double limit_s) {
	if(self.is_set()) return true;
	const auto deadline = std::chrono::steady_clock::now() + to_nanoseconds(limit_s);
	wait_until([&] {
		const std::chrono::nanoseconds left = deadline - std::chrono::steady_clock::now();
		return left <= left.zero() || self.sleep(std::min<std::chrono::nanoseconds>(left, signal_interval));
	});
	return self.is_set();
}

nb::object run(executor_loop& self, const double timeout_s) {
	held_flags.is_executor = true;
	std::vector<executor_event> events;
	const auto flags = std::exchange(held_flags.flags, {});
	{
		const nb::gil_scoped_release released;
		for(const auto& [object, flag] : flags) flag->set();
		events = self.run(to_nanoseconds(timeout_s));
	}
	for(const auto& [object, flag] : flags) object.dec_ref();
	return to_named(events);
}

/// Calls a method of the executor without the GIL.
template <typename F>
auto without_gil(F&& f) {
	const nb::gil_scoped_release released;
	return f();
}

nb::dict loop_statistics(executor_loop& self) {
	const auto values = without_gil([&] { return self.statistics(); });
	nb::dict result = to_python(values);
	std::uint64_t allocations = 0;
	for(const auto& usage : values.memories) allocations += usage.allocations;
	result["allocations"] = allocations;
	return result;
}

void bind_executor_settings(nb::module_& m) {
	nb::class_<executor_options> executor(m, "ExecutorSettings",
	    "The devices of one rank, and the settings of its executor. The defaults are rank 0 of 1 with 1 device.");
	bind_keywords(executor);
	bind_fields(executor);

	nb::class_<cuda_options> cuda(m, "CudaSettings", "The GPUs of this rank.");
	bind_keywords(cuda);
	cuda.def_rw("ordinals", &cuda_options::ordinals, "As the driver counts them, one per device.")
	    .def_rw("compute_lanes", &cuda_options::compute_lanes, "Kernels at the same time on a GPU.")
	    .def_rw("most_memory_bytes", &cuda_options::most_memory_bytes, "Of each GPU, for buffers; 0: all that there is.")
	    .def_rw("graphs", &cuda_options::graphs, "Whole periods of replays run as graphs; not with a timeline, nor with kernels that check bounds.")
	    .def_rw("graphs_exchange", &cuda_options::graphs_exchange, "Kernels of graphs wait for other ranks; not on a GPU that they use, too.")
	    .def_rw("reductions", &cuda_options::reductions, nb::arg().none(), "The kernels that combine partial results; more may be added later.")
	    .def_prop_rw(
	        "small_copies", [](const cuda_options& self) { return self.small_copies.size(); },
	        [](cuda_options& self, const std::vector<std::array<std::uintptr_t, 5>>& handles) {
		        self.small_copies.clear();
		        for(const auto& given : handles) {
			        const auto function = [&](const std::size_t i) { return reinterpret_cast<cuda::function>(given[i]); };
			        self.small_copies.push_back({function(0), function(1), function(2), function(3), function(4)});
		        }
	        },
	        nb::for_getter(nb::sig("def small_copies(self) -> typing.Any")),
	        nb::for_setter(nb::sig("def small_copies(self, handles: collections.abc.Sequence[tuple[int, int, int, int, int]], /) -> None")),
	        "Five CUfunctions per device, as cuda_small_copies::functions has them; or none. Reads the number of devices.")
	    .def_prop_rw(
	        "release_cached_memory", [](const cuda_options& self) { return self.release_cached_memory != nullptr; },
	        [](cuda_options& self, nb::callable release) {
		        self.release_cached_memory = [release = std::move(release)](const int ordinal) {
			        const nb::gil_scoped_acquire gil;
			        release(ordinal);
		        };
	        },
	        nb::for_getter(nb::sig("def release_cached_memory(self) -> typing.Any")),
	        nb::for_setter(nb::sig("def release_cached_memory(self, release: collections.abc.Callable[[int], object], /) -> None")),
	        "Called with an ordinal, makes others in this process give back unused memory; reads whether there is such a function.");
}

void construct(executor_loop* const self, const executor_options& options, const cuda_options* const cuda) {
	if(cuda == nullptr) {
		new(self) executor_loop(options);
		return;
	}
	if(cuda->ordinals.size() != options.num_devices) throw nb::value_error("ordinals needs one entry per device");
	if(!cuda->small_copies.empty() && cuda->small_copies.size() != options.num_devices) throw nb::value_error("small_copies needs one entry per device");
	new(self) executor_loop(options, [&](event_count& completions) -> std::unique_ptr<backend> {
		cuda_options devices = *cuda;
		devices.may_spin = has_free_cores(options);
		devices.trace = options.trace.get();
		return std::make_unique<cuda_backend>(devices, completions);
	});
}

nb::list lanes(const executor_loop& self) {
	nb::list result;
	for(const auto& cls : self.lane_classes()) {
		for(std::uint32_t i = 0; i < cls.size; ++i) result.append(nb::make_tuple(name_of(cls.kind), cls.device.value));
	}
	return result;
}

std::vector<rank_id> to_ranks(const std::vector<std::uint32_t>& numbers) {
	std::vector<rank_id> ranks;
	for(const auto number : numbers) ranks.push_back(rank_id(number));
	return ranks;
}

direct_context& direct_of(executor_loop& self) {
	if(self.direct() == nullptr) throw std::invalid_argument("this executor has no direct transfers");
	return *self.direct();
}

nb::bytes offer_direct(executor_loop& self, const std::vector<std::uint32_t>& host_ranks) {
	auto* const direct = self.direct();
	if(direct == nullptr) return nb::bytes("", 0);
	const auto offer = direct->make_offer(to_ranks(host_ranks));
	return nb::bytes(reinterpret_cast<const char*>(&offer), sizeof offer);
}

void open_direct(executor_loop& self, const std::uint32_t peer, const nb::bytes& bytes) {
	flag_memory::offer offer;
	if(bytes.size() != sizeof offer) throw std::invalid_argument("not an offer of this version of celerity_py; do all ranks run the same one?");
	std::memcpy(&offer, bytes.data(), sizeof offer);
	direct_of(self).open(rank_id(peer), offer);
}

void bind_tuples(nb::module_& m) {
	named_tuple<memory_holders>::bind(m, "MemoryHolders", "Who holds the memory that an allocation lacked.");
	named_tuple<executor_failure>::bind(m, "ExecutorFailure", "The failure of an Executor. Fields are 0 or empty where they do not apply.");
	named_tuple<payload>::bind(m, "Payload", "A box that is sent out of, or received into, a dense row-major array in host memory. Units are elements.");
	named_tuple<pilot_event>::bind(m, "PilotEvent", "A pilot to send.");
	named_tuple<send_event>::bind(m, "SendEvent", "A message to send.");
	named_tuple<receive_event>::bind(m, "ReceiveEvent", "A message to receive.");
	named_tuple<barrier_event>::bind(m, "BarrierEvent", "A barrier to enter.");
	named_tuple<completed_event>::bind(m, "CompletedEvent", "A fence or an epoch is complete.");
	named_tuple<retired_event>::bind(m, "RetiredEvent", "All submissions up to this one are complete.");
	named_tuple<user_free_event>::bind(m, "UserFreeEvent", "The runtime has no more use for an array of the user.");
	named_tuple<empty_reduction_event>::bind(m, "EmptyReductionEvent", "Nothing seems to have been combined into this result of min or max.");
	named_tuple<failed_event>::bind(m, "FailedEvent", "The executor cannot go on.");
	named_tuple<shutdown_event>::bind(m, "ShutdownEvent", "The last epoch is complete.");
	named_tuple<stopped_event>::bind(m, "StoppedEvent", "stop() was called.");
	named_tuple<bound_part>::bind(m, "BoundPart", "Elements of a periodic access that lie together, with the address of their allocation.");
	named_tuple<bound_access>::bind(m, "BoundAccess", "An access of a chunk, with the address of its allocation.");
	named_tuple<bound_reduction>::bind(m, "BoundReduction", "Where a kernel leaves its partial result.");
	named_tuple<kernel_call>::bind(m, "KernelCall",
	    "A kernel for one chunk. An access is None if the chunk accesses nothing; the stream is 0 without streams.");
	named_tuple<host_task_call>::bind(m, "HostTaskCall", "A host task for one chunk.");
	named_tuple<initialize_call>::bind(m, "InitializeCall", "Initial contents to compute.");
	named_tuple<combine_call>::bind(m, "CombineCall", "Partial results of a reduction by a callable, to be reduced.");
	named_tuple<receive_arbiter::unclaimed_pilot>::bind(m, "UnclaimedPilot", "A message that was announced, and that nobody has asked for.");
	named_tuple<contents_part>::bind(m, "ContentsPart", "Where a part of a buffer lies. Address 0: the function for its contents has not been called.");
	named_tuple<last_contents>::bind(m, "LastContents", "Where a buffer lies after a failure. Ids are 0 where they do not apply.");
	named_tuple<active_instruction>::bind(m, "ActiveInstruction",
	    "An instruction that has been issued and is not complete. Ids are 0, and other fields None, where they do not apply.");
}

void bind_calls(nb::class_<executor_loop>& cls) {
	using released = nb::call_guard<nb::gil_scoped_release>;
	cls.def(
	       "next_kernel",
	       [](executor_loop& self, const std::uint32_t device) { return to_named(without_gil([&] { return self.next_kernel(device_id(device)); })); },
	       "device"_a, nb::sig("def next_kernel(self, device: int) -> KernelCall | None"),
	       R"(The next kernel call for a device, as soon as it may begin: a CPU kernel after its predecessors, a GPU kernel once its stream waits for them.
None after stop(). Blocks without the GIL.

One thread per device.)")
	    .def(
	        "kernel_returned", [](executor_loop& self, const call_ticket ticket) { self.calls().kernel_returned(ticket); }, "ticket"_a, released(),
	        "The kernel's function has returned; its work may still run on its lane.")
	    .def(
	        "next_host_task", [](executor_loop& self) { return to_named(without_gil([&] { return self.calls().next_host_task(); })); },
	        nb::sig("def next_host_task(self) -> HostTaskCall | InitializeCall | CombineCall | None"),
	        "The next call for a host-task thread; None after stop(). Blocks without the GIL. Any number of threads may call it.")
	    .def(
	        "host_task_waits", [](executor_loop& self, const call_ticket ticket) { self.calls().host_task_waits(ticket); }, "ticket"_a, released(),
	        "The call waits for other ranks, and no longer keeps others from being issued where one goes at a time.")
	    .def(
	        "host_task_done", [](executor_loop& self, const call_ticket ticket) { self.calls().host_task_done(ticket); }, "ticket"_a, released(),
	        "The call has returned.")
	    .def(
	        "register_user_memory",
	        [](executor_loop& self, const std::uintptr_t address, const flat_box& allocated_box) {
		        return self.allocations().register_user_memory(reinterpret_cast<void*>(address), unflatten(allocated_box));
	        },
	        "address"_a, "allocated_box"_a, "Makes an array of the user, over this box of a buffer, known as allocation (0, result). Any thread.")
	    .def(
	        "replace_user_memory",
	        [](executor_loop& self, const std::uint64_t raw, const std::uintptr_t address) {
		        self.allocations().replace_user_memory(raw, reinterpret_cast<void*>(address));
	        },
	        "raw"_a, "address"_a, "Continues with a copy of the same size. Nothing that touches it may be in flight. Any thread.")
	    .def(
	        "unregister_user_memory", [](executor_loop& self, const std::uint64_t raw) { self.allocations().unregister_user_memory(raw); }, "raw"_a,
	        "No instruction may refer to it any more. Any thread.");
}

} // namespace

void bind_executor(nb::module_& m) {
	using released = nb::call_guard<nb::gil_scoped_release>;

	bind_tuples(m);
	bind_fused_kernels(m);
	bind_cuda(m);
	bind_executor_settings(m);

	nb::class_<spin_flag>(m, "SpinFlag",
	    "A flag that one thread sets, and others wait for, without sleeping or asleep. An interrupt of who waits leaves no lock behind.")
	    .def(nb::init<>())
	    .def_prop_ro("is_set", &spin_flag::is_set, "Whether it is set.")
	    .def("set_at_once", &spin_flag::set, "Sets it now, on any thread.")
	    .def("sleep", &sleep_until_set, "limit_s"_a, "Sleeps, without the GIL, until it is set or the time is up; whether it is set. Handles signals.")
	    .def("set", &set_flag, "source"_a = nb::none(), nb::sig("def set(self, source: object = None) -> None"),
	        "Sets it, on the executor thread in the next run(); `source` makes this the callback of a future.")
	    .def(
	        "wait", [](const spin_flag& self, const double limit_s) { return self.wait(to_nanoseconds(limit_s)); }, "limit_s"_a, released(),
	        "Looks at it, without the GIL, until it is set or the time is up; whether it is set.");

	nb::class_<executor_loop> executor(m, "Executor",
	    R"(Executes the instructions of one rank: on CPU devices with separate memories, or on GPUs.

One thread calls run() again and again; a launcher thread per device calls next_kernel(), host-task threads call next_host_task(); all other methods
may be called from any thread. Boxes are flat 6-tuples (min0, min1, min2, max0, max1, max2). Stop it before the scheduler is destroyed.)");
	executor.attr("PILOT_SIZE") = sizeof(pilot_message);
	executor.def("__init__", &construct, "settings"_a = executor_options{}, "cuda"_a.none() = nb::none(), "On CPU devices unless `cuda` is given.")
	    .def("offer_direct", &offer_direct, "host_ranks"_a,
	        R"(Begins to prepare direct transfers, before the first batch. Returns the handles that the other ranks of this host open.

Empty if this executor has no direct transfers. Afterwards open_direct() the offers of the others, and name those with whom both sides succeeded.)")
	    .def("open_direct", &open_direct, "peer"_a, "offer"_a,
	        "Opens the offer of another rank of this host. Raises RuntimeError with the reason if it cannot.")
	    .def(
	        "agree_direct", [](executor_loop& self, const std::vector<std::uint32_t>& peers) { direct_of(self).agree(to_ranks(peers)); }, "peers"_a,
	        "Names the ranks that transfers to and from are direct with; none is allowed.")
	    .def(
	        "connect",
	        [](executor_loop& self, std::shared_ptr<message_port> port, const bool spins, const double cores_per_rank, const bool has_other_ways) {
		        self.network().connect(std::move(port), {spins, cores_per_rank, has_other_ways});
	        },
	        "port"_a, nb::kw_only(), "spins"_a, "cores_per_rank"_a, "has_other_ways"_a,
	        R"(Sends and receives messages through this port, and looks at it from run(). Before the first batch.

Without a port, messages are events, which notify_complete() and notify_pilot() answer: for tests that play the network.)")
	    .def("run", &run, "timeout_s"_a,
	        nb::sig("def run(self, timeout_s: float) -> list[PilotEvent | SendEvent | ReceiveEvent | BarrierEvent | CompletedEvent | RetiredEvent"
	                " | UserFreeEvent | EmptyReductionEvent | FailedEvent | ShutdownEvent | StoppedEvent]"),
	        R"(Works, without the GIL, until there is an event for Python, the port has a notice, wake() is called, or the time is up. Returns the events.

Events that nobody waits for come up to 2 ms later.)")
	    .def(
	        "watch",
	        [](executor_loop& self, const std::uint64_t submission, spin_flag& flag, const double limit_s) {
		        return self.watch(submission_id(submission), flag, to_nanoseconds(limit_s));
	        },
	        "submission"_a, "flag"_a, "limit_s"_a, released(),
	        R"(Looks at the flag, without the GIL, until it is set or the time is up; it is set as soon as the fence or epoch is complete.

Whether that was so: run() tells of it later then. Otherwise somebody else has set the flag, or run() tells.)")
	    .def(
	        "prepare_queue", [](executor_loop& self, const queue_priority priority, const double share) { self.prepare_queue(priority, share); }, "priority"_a,
	        "share"_a = 0.0, released(),
	        R"(Makes streams for the kernels of queues of this priority. Before their first task. Any thread.

With a share, these kernels run on that share of the multiprocessors of each GPU, and all others on the rest. Raises ValueError if a GPU has no such part,
and RuntimeError if the driver refuses.)")
	    .def("lanes", &lanes, nb::sig("def lanes(self) -> list[tuple[str, int]]"), "Kind and device of every lane, by its number.")
	    .def("wake", &executor_loop::wake, released(), "Makes the present or next run() return.")
	    .def(
	        "notify_complete", [](executor_loop& self, const std::uint64_t request) { self.notify_complete(request_id(request)); }, "request"_a, released(),
	        "A send, receive or barrier is complete.")
	    .def(
	        "notify_pilot",
	        [](executor_loop& self, const std::uint32_t source, const nb::bytes& pilot) {
		        self.notify_pilot(rank_id(source), pilot_message::parse(pilot.data(), pilot.size()));
	        },
	        "source_rank"_a, "pilot"_a, "A pilot has arrived. Raises ValueError if it is none, or one of another version.")
	    .def(
	        "unclaimed_pilots", [](executor_loop& self) { return to_named(without_gil([&] { return self.unclaimed_pilots(); })); },
	        nb::sig("def unclaimed_pilots(self) -> list[UnclaimedPilot]"),
	        "Announced messages that nothing has asked for. On the thread that calls run(), between two calls.")
	    .def_prop_ro(
	        "outstanding_communication", [](executor_loop& self) { return self.network().is_awaiting(); },
	        "Requests that are not complete, or data that has not arrived.")
	    .def_prop_ro(
	        "still_s", [](executor_loop& self) { return std::chrono::duration<double>(self.network().still_for()).count(); },
	        "Seconds since something has come from or gone to the network, or has left for Python.")
	    .def("has_empty_lanes", &executor_loop::has_empty_lanes, "num_handed_over"_a, released(),
	        "Whether the first `num_handed_over` instructions have come, and none that needs a lane of a device is left.")
	    .def("fail", &executor_loop::fail, released(), "Issues nothing new from now on; run() goes on returning.")
	    .def("stop", &executor_loop::stop, released(), "Wakes every thread out of next_kernel(), next_host_task() and run(). Idempotent.")
	    .def("release_devices", &executor_loop::release_devices, released(),
	        "Stops, and gives all memory of the devices back. False while operations run there: then it may be called again. No thread runs user code.")
	    .def(
	        "active_instructions", [](executor_loop& self) { return to_named(without_gil([&] { return self.active_instructions(); })); },
	        nb::sig("def active_instructions(self) -> list[ActiveInstruction]"),
	        "The instructions in flight or waiting for a transfer, the oldest first. If none is in flight, those not issued as well.")
	    .def(
	        "settle",
	        [](executor_loop& self, const double timeout_s) { return without_gil([&] { return self.after_failure().settle(to_nanoseconds(timeout_s)); }); },
	        "timeout_s"_a, nb::sig("def settle(self, timeout_s: float) -> bool"),
	        "After the failure of a run with a single rank, before `stop`: wait until operations on streams have ended. False if that takes longer. "
	        "Raises RuntimeError if a device has failed.")
	    .def(
	        "last_contents",
	        [](executor_loop& self, scheduler& planner, const std::uint64_t buffer, const std::uint64_t failed) {
		        return to_named(
		            without_gil([&] { return self.after_failure().find(buffer_id(buffer), planner.newest_places(buffer_id(buffer)), submission_id(failed)); }));
	        },
	        "scheduler"_a, "buffer"_a, "failed"_a, nb::sig("def last_contents(self, scheduler: Scheduler, buffer: int, failed: int) -> LastContents"),
	        "Where the contents of a buffer are after the failure of a run with a single rank, whose threads have ended. `failed`: the submission that has "
	        "failed, or 0. The scheduler has not been stopped. Raises RuntimeError if that is not known.")
	    .def("statistics", &loop_statistics, nb::sig("def statistics(self) -> dict[str, typing.Any]"),
	        "Counts, bytes and times since the start: instructions, copies, copied_bytes, sent_bytes, received_bytes, batches, allocations, memories, ...");
	bind_calls(executor);
}

} // namespace celerity::native
