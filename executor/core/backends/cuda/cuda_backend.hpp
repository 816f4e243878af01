// SPDX-License-Identifier: MIT
// The GPUs of one rank: streams as lanes, events between them, memory from an arena per device and pinned host memory from a pool.
//
// Streams, events and memory are ours; modules and users' temporaries are CuPy's, in the same primary contexts.
#pragma once

#include <array>
#include <atomic>
#include <map>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "backends/backend.hpp"
#include "backends/cpu/cpu_copy_lane.hpp"
#include "backends/lane_progress.hpp"
#include "cuda_driver.hpp"
#include "cuda_folds.hpp"
#include "cuda_function.hpp"
#include "cuda_graph.hpp"
#include "cuda_lane.hpp"
#include "cuda_pinned_pool.hpp"
#include "cuda_small_copies.hpp"
#include "cuda_split.hpp"
#include "cuda_timeline.hpp"
#include "cuda_worker.hpp"
#include "memory/nd_copy.hpp"
#include "memory/slab_arena.hpp"
#include "threads/event_count.hpp"

namespace celerity {

/// Per device.
inline constexpr std::uint32_t max_compute_lanes = 12;

struct cuda_options {
	std::vector<int> ordinals;  ///< of this rank's devices, as the driver counts them
	std::uint32_t compute_lanes = max_compute_lanes; ///< per device; at most so many
	std::size_t most_memory_bytes = 0; ///< of each device, for buffers; 0: all that there is
	bool may_spin = true;            ///< there are cores for all threads
	trace_recorder* trace = nullptr; ///< null: there is no timeline
	bool graphs = false;             ///< whole periods of replays run as graphs; not with a timeline, nor with kernels that check bounds
	std::vector<cuda_small_copies::functions> small_copies; ///< per device; empty: copy engines move all
	std::shared_ptr<const cuda_folds> folds = nullptr; ///< kernels may be added later; null: the planner lets no device fold
	/// Kernels of graphs wait for other ranks. Not where ranks share a GPU: while one of them waits so, the others cannot run.
	bool graphs_exchange = false;
	/// Makes other libraries of this process give back device memory that they keep and do not use. Null: there are none.
	std::function<void(int ordinal)> release_cached_memory;
};

/// The facts about the devices of this rank that the planner needs.
struct cuda_topology {
	bool all_peers = true;                 ///< every device reaches the memory of every other one
	std::size_t smallest_memory_bytes = 0; ///< of any device, used or free
	std::vector<std::uint8_t> link_ranks;  ///< see `system_capabilities`
};

class cuda_backend final : public backend {
  public:
	/// `completions` is signalled when a lane of the host has got further; it outlives the backend. Throws std::runtime_error.
	cuda_backend(const cuda_options& options, event_count& completions);
	~cuda_backend() override;

	/// Collective over nothing; may be called without a backend. Throws std::runtime_error.
	static cuda_topology probe(std::span<const int> ordinals);

	std::span<const lane_class> lane_classes() const override { return m_classes; }
	std::uint32_t kernel_class(device_id device, bool is_urgent, queue_priority queue) const override;
	void prepare_queue(queue_priority queue, double share) override;
	std::vector<multiprocessor_parts> parts() override;
	std::uint32_t copy_class(memory_id from, memory_id to) const override;
	std::uint32_t gather_class(memory_id to) const override;
	std::uint32_t pull_class(memory_id to) const override;
	std::uint32_t signal_class(memory_id from) const override;
	bool defers_kernels() const override { return true; }
	bool must_poll() const override { return m_workers.empty(); }

	std::size_t most_device_bytes() const override { return m_options.most_memory_bytes; }
	bool is_ready_to_allocate(memory_id memory, std::size_t size_bytes) override;
	void* allocate(memory_id memory, std::size_t size_bytes, std::size_t alignment_bytes) override;
	void deallocate(memory_id memory, void* address, std::size_t size_bytes, std::size_t alignment_bytes) override;
	void fill(memory_id memory, void* address, std::size_t size_bytes, unsigned char value) override;

	void enqueue_copy(lane_position position, const lane_waits& waits, const copy_operation& copy) override;
	void enqueue_gather(lane_position position, const lane_waits& waits, std::span<const copy_operation> copies) override;
	void enqueue_fold(lane_position position, const lane_waits& waits, const fold_operation& fold) override;
	void enqueue_launch(lane_position position, const lane_waits& waits, launch_operation&& launch) override;
	bool has_graphs() const override { return m_options.graphs && (m_workers.empty() || !m_graph_positions.empty()); }
	bool do_graphs_exchange() const override;
	std::unique_ptr<operation_graph> make_graph(std::span<const graph_operation> operations, std::size_t num_flags) override;
	void enqueue_graph(lane_position position, const lane_waits& waits, operation_graph& graph, std::span<const graph_flag> flags) override;
	bool begin_kernel(lane_position position, std::span<const lane_position> waits) override;
	void end_kernel(lane_position position) override;
	std::uintptr_t stream_handle(lane_index lane) const override;

	bool has_direct_transfers() const override { return true; }
	shared_location locate(memory_id memory, const void* address) const override;
	void* open_peer_slab(const shared_location& location) override;
	void adopt_flags(void* address, std::size_t size_bytes) override;
	void enqueue_signal(lane_position position, const lane_waits& waits, const shared_flag& flag, bool depends_on_one) override;
	void flush() override;
	void enqueue_pulls(lane_position position, const lane_waits& waits, std::span<const pull_operation> pulls) override;

	std::optional<bounds_violation> take_violation() override;
	std::uint64_t completed(lane_index lane) override;
	std::map<std::string, std::uint64_t> count_driver_calls() const override;
	void cancel() override;
	void stop() override;
	void close_peers() override;
	bool release() override;

  private:
	struct device_state {
		int ordinal = 0;
		cuda::device handle = 0;
		cuda::context context = nullptr;
		cuda::stream utility = nullptr; ///< for work that the host waits for
		std::unique_ptr<slab_arena> arena;
	};

	/// As the device header has it.
	struct violation_report {
		std::int32_t claimed;
		std::int32_t access;
		std::int64_t index[3];
	};
	/// A kernel that checks bounds. Executor thread.
	struct checked_launch {
		lane_position position;
		const device_kernel_instruction* kernel = nullptr;
		violation_report* report = nullptr;
	};

	const cuda::driver& m_driver;
	cuda_options m_options;
	event_count& m_completions;
	std::vector<device_state> m_devices;
	std::unique_ptr<cuda_pinned_pool> m_pinned;
	std::size_t m_max_pitch_bytes = 0;
	std::vector<lane_class> m_classes;                  // see class_index()
	std::vector<std::unique_ptr<cuda_timeline>> m_timelines; // by device; none without a trace
	std::vector<std::unique_ptr<cuda_lane>> m_lanes;    // by lane; null for lanes of the host
	std::vector<std::uint32_t> m_device_of_lane;        // by lane
	std::vector<lane_progress> m_host_progress;         // by lane; used for lanes of the host
	std::unique_ptr<cpu_copy_lane> m_host_lane;
	lane_index m_host_lane_index = 0;
	std::vector<packed_parameters> m_parameters; // by device
	std::vector<cuda_small_copies> m_small_copies; // by device
	std::uint32_t* m_stop_word = nullptr;          // in pinned memory: kernels that wait for other ranks or devices look at it
	cuda::stream m_flag_stream = nullptr;          // on which flags of graphs are written ahead; of the only device
	std::vector<lane_position> m_graph_positions;  // by device: the last one on the lane for its parts of graphs; none if graphs cannot join devices
	struct {
		lane_position complete; // when all parts are
		std::vector<lane_position> parts;
	} m_latest_graph; // of several devices
	std::vector<std::unique_ptr<cuda_worker>> m_workers; // by device; none if there is only one device
	mutable std::unordered_map<std::uint64_t, cuda::ipc_handle> m_handles; // of our slabs, by slab number
	std::map<std::array<std::byte, 64>, void*> m_opened; // slabs of peers, by handle
	std::vector<std::pair<void*, std::size_t>> m_adopted;
	cuda_signals m_kept_signals; // until flush()
	std::vector<checked_launch> m_checked;         // in flight
	std::vector<violation_report*> m_free_reports; // all zero, in pinned memory
	std::atomic<bool> m_is_cancelled{false};
	enum class queue_state : std::uint8_t {
		absent,   ///< its kernels, if there are any, run on the lanes of queue 0
		together, ///< it has lanes of its own
		apart,    ///< likewise, on the multiprocessors of the share
	};
	std::mutex m_queues_mutex;
	std::array<std::atomic<queue_state>, max_queue_priority + 1> m_queues{};
	std::vector<cuda_split> m_splits; ///< by device; empty if the multiprocessors are not divided. Constant from the first kernel on
	double m_share = 0;               ///< for which m_splits have been made
	bool m_is_stopped = false;
	bool m_is_released = false;

	/// Of a slab, within this process.
	static std::uint64_t slab_number(const memory_id memory, const std::size_t index) { return (std::uint64_t{memory.value} << 32) | index; }
	void add_device(int ordinal);
	void enable_peers();
	void start_workers();
	/// Before the first kernel.
	void divide_multiprocessors(double share);
	/// A class of lanes, and its lanes.
	void add_lanes(const lane_class& lanes, int stream_priority, cuda_timeline* timeline, bool are_open);
	void prepare_small_copies();
	bool may_kernels_wait();
	void make_stop_word();
	void add_graph_lanes();
	/// Nothing is on any stream. Once the workers have stopped.
	bool are_lanes_idle();
	/// A kernel that failed may have put work on a stream. From now on a position stands for it.
	void record_unfinished_kernels();
	violation_report* take_report();
	void trim(memory_id memory);
	void make_current(cuda::context context) const;
	bool wait_for(cuda::stream stream, std::span<const lane_position> waits);
	/// Issues `what` behind its waits: on the worker of its device, or here if the rank has one device.
	void hand_over(lane_position position, const lane_waits& waits, decltype(cuda_operation::what)&& what);
	void issue(cuda_operation& operation);
	/// Issues `what`, which is `operation` or a part of it, behind its waits. False if cancelled.
	template <typename What>
	bool issue_at(lane_position position, const cuda_operation& operation, const What& what);
	void issue_signals(const cuda_operation& operation, const cuda_signals& signals);
	void issue_on(cuda_lane& lane, const launch_operation& launch);
	void issue_on(cuda_lane& lane, const fold_operation& fold);
	void issue_on(cuda_lane& lane, const cuda_graph_step& step);
	/// With other ranks.
	void set_flags(const cuda_lane& lane, const cuda_graph_step& step);
	void issue_exchange(cuda_lane& lane, const cuda_graph& graph, const cuda_graph_part& part, const cuda_graph_node& node);
	/// `count` times the same element, one after the other.
	void store(cuda::stream stream, void* destination, std::span<const std::byte> value, std::size_t count);
	cuda::graph capture(const cuda_graph& graph, const cuda_graph_part& part);
	/// Of kernels of a graph, with the current context.
	void set_priority(cuda::graph_node kernel, int priority) const;
	void issue_on(cuda_lane& lane, const copy_operation& operation);
	void issue_on(cuda_lane& lane, const std::vector<copy_operation>& gathered);
	/// Copies of any size, without copy engines.
	void copy_by_kernels(const cuda_lane& lane, std::span<const copy_operation> copies);
	void issue_on(cuda_lane& lane, const shared_flag& flag);
	/// Pulls whose stream waits for the flags. Without `kernel`, copy engines fetch.
	struct fetch {
		const std::vector<pull_operation>& pulls;
		const cuda_small_copies* kernel;
	};
	void issue_pulls(const cuda_operation& operation, const std::vector<pull_operation>& pulls);
	void issue_on(cuda_lane& lane, const fetch& fetched);
	static bool must_wait(const shared_flag& ready);
	void write_answers(cuda_lane& lane, const std::vector<pull_operation>& pulls);
	static bool add(cuda_small_copies& small, const copy_operation& copy);
	/// False if not all of it can be added.
	static bool add_all(cuda_small_copies& small, const decltype(graph_operation::what)& what);
	void copy(cuda::stream stream, const copy_operation& operation);
	void copy_runs(cuda::stream stream, const std::byte* source, std::byte* destination, const strided_copy& runs);
};

template <typename What>
bool cuda_backend::issue_at(const lane_position position, const cuda_operation& operation, const What& what) {
	auto& lane = *m_lanes[position.lane];
	lane.catch_up();
	// Events first, as they are likely to have happened already: a stream takes longer to look at a flag than at an event.
	enqueue_flags(m_driver, lane.stream(), cuda::memory_operation_wait, std::span(operation.answers.data(), operation.answers.size()));
	if(!wait_for(lane.stream(), std::span(operation.waits.data(), operation.waits.size()))) return false;
	lane.begin(position.sequence);
	issue_on(lane, what);
	lane.record(position.sequence);
	return true;
}

} // namespace celerity
