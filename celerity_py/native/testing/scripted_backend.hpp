// SPDX-License-Identifier: MIT
// Devices for tests: operations on their lanes wait until the test lets a lane make a step. Everything happens on one thread, so
// that many ranks can live in one process, and every order of events that real devices could choose can be tried.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "executor/core/devices/backend.hpp"
#include "executor/core/devices/direct_transfers.hpp"

namespace celerity::native {

struct scripted_options {
	std::size_t num_devices = 1;
	std::uint32_t num_compute_lanes = 1;
	std::uint32_t num_other_lanes = 1;
	bool is_stream_like = false; ///< as GPUs: kernels are enqueued by launcher threads. Otherwise those wait for the operations before, as on CPU devices.
	bool single_fifo = false;    ///< all lanes of a device share one queue, in order of enqueueing
	bool host_copies_apart = false; ///< the lane of copies within the host cannot wait for the others
};

class scripted_backend final : public backend, public direct_transfers, public kernel_launcher {
  public:
	/// A kernel that the executor itself has enqueued, with the data for its body.
	struct launched_kernel {
		submission_id submission;
		box chunk;
		std::span<const access_binding> accesses;
		std::vector<array_place> access_places;
		std::vector<array_place> reduction_places;
	};
	/// The kind of a step; its names stand below the class.
	enum class step_kind : std::uint8_t { copy, reduce, signal, pull, kernel, launch };
	struct step_result {
		step_kind kind = step_kind::copy;
		lane_position position;
		const launched_kernel* launch = nullptr; ///< valid until the next step
	};

	explicit scripted_backend(const scripted_options& options);
	~scripted_backend() override;

	/// Which steps are possible now: numbers of lanes, and -1 - n for the n-th flag that may be written ahead of its lane.
	std::vector<std::int64_t> possible_steps() const;
	step_result step(std::int64_t which);
	/// The kernel begun last.
	lane_position begun() const { return m_begun; }
	std::vector<task_id> take_reached() { return std::exchange(m_reached, {}); }
	void note_reached(const task_id task) { m_reached.push_back(task); }
	std::size_t num_allocations() const { return m_live.size(); }
	/// Operations that are enqueued and have not run, or writes to memory that was freed. Empty if there are none.
	std::string find_leftovers() const;

	std::span<const lane_class> lane_classes() const override { return m_classes; }
	std::uint32_t kernel_class(device_id device, bool is_urgent, queue_priority queue) const override;
	std::uint32_t copy_class(memory_id from, memory_id to) const override;
	std::uint32_t gather_class(memory_id to) const override;
	bool defers_kernels() const override { return m_options.is_stream_like; }
	void* allocate(memory_id memory, std::size_t size_bytes, std::size_t alignment_bytes) override;
	void deallocate(memory_id memory, void* address, std::size_t size_bytes, std::size_t alignment_bytes) override;
	void enqueue_copy(lane_position position, const lane_waits& waits, const copy_operation& copy) override;
	void enqueue_gather(lane_position position, const lane_waits& waits, std::span<const copy_operation> copies) override;
	void enqueue_reduce(lane_position position, const lane_waits& waits, const reduce_operation& reduce) override;
	void enqueue_launch(lane_position position, const lane_waits& waits, launch_operation&& launch) override;
	void fill(memory_id memory, void* address, std::size_t size_bytes, unsigned char value) override;
	bool must_poll() const override { return true; }
	bool begin_kernel(lane_position position, std::span<const lane_position> waits) override;
	void end_kernel(lane_position /* position */) override {}

	kernel_launcher* launcher() override { return this; }
	direct_transfers* direct() override { return this; }
	bool signals_flags() const override { return false; }
	void close_peers() override {}
	std::uint32_t pull_class(memory_id to) const override;
	std::uint32_t signal_class(memory_id from) const override;
	shared_location locate(memory_id memory, const void* address) const override;
	void* open_peer_slab(const shared_location& location) override;
	void adopt_flags(void* /* address */, std::size_t /* size_bytes */) override {}
	void enqueue_signal(lane_position position, const lane_waits& waits, const shared_flag& flag, bool depends_on_one) override;
	void flush() override;
	void enqueue_pulls(lane_position position, const lane_waits& waits, std::span<const pull_operation> pulls) override;

	std::uint64_t completed(const lane_index lane) override { return m_lanes.at(lane).reached; }
	void cancel() override {}
	void stop() override {}
	bool release() override { return true; }

  private:
	enum class role : std::uint8_t { compute, urgent, to_device, to_host, peer, signal, pull, raised };
	static constexpr std::uint32_t roles_per_device = 8;

	struct operation {
		step_kind kind = step_kind::copy;
		std::vector<lane_position> waits;
		std::vector<shared_flag> answers;
		std::vector<pull_operation> steps; ///< of copies and of pulls: one after the other
		std::size_t num_fetched = 0;
		bool must_say_so = false; ///< that the last one is fetched
		reduce_operation reduce;
		shared_flag flag;        ///< of a signal
		bool is_early = false;   ///< the flag may be written as soon as its one wait is over
		bool is_written = false;
		launched_kernel launch;
	};
	struct lane_state {
		std::uint32_t queue = 0; ///< number of the device, or of the host
		std::uint64_t reached = 0;
		std::map<std::uint64_t, operation> waiting; ///< by sequence
	};
	struct early_flag {
		lane_position position;
	};

	const scripted_options m_options;
	std::vector<lane_class> m_classes;
	std::vector<lane_state> m_lanes;
	std::vector<std::deque<lane_position>> m_fifos; ///< by device, then the host
	std::vector<std::pair<lane_position, operation>> m_kept; ///< signals until flush()
	std::vector<early_flag> m_early;
	std::map<const void*, std::size_t> m_live;
	std::vector<std::pair<std::byte*, std::size_t>> m_dead; ///< kept to the end, so that later accesses to them are found
	std::vector<task_id> m_reached;
	lane_position m_begun;
	launched_kernel m_launched;

	std::uint32_t class_of(role which, std::uint32_t device) const { return device * roles_per_device + static_cast<std::uint32_t>(which); }
	void enqueue(lane_position position, operation&& op);
	bool is_passed(const lane_position& position) const { return m_lanes.at(position.lane).reached >= position.sequence; }
	bool are_passed(std::span<const lane_position> positions) const;
	bool can_step(lane_index lane) const;
	bool can_step(const operation& op) const;
	/// Whether that was the last one.
	bool pull_once(operation& op);
	static operation make(step_kind kind, const lane_waits& waits);
};

} // namespace celerity::native

template <>
inline constexpr std::array<const char*, 6> celerity::names_of<celerity::native::scripted_backend::step_kind>{
    "copy", "reduce", "signal", "pull", "kernel", "launch"};
