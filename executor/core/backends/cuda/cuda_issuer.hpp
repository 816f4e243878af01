// SPDX-License-Identifier: MIT
// Puts operations on lanes: at once, or, if the rank has several devices, on a thread for each of them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuda_copies.hpp"
#include "cuda_devices.hpp"
#include "cuda_reductions.hpp"
#include "cuda_function.hpp"
#include "cuda_lanes.hpp"
#include "cuda_signals.hpp"
#include "cuda_worker.hpp"
#include "devices/fused_kernel.hpp"
#include "threads/event_count.hpp"

namespace celerity {

class cuda_graph_launcher;

class cuda_issuer {
  public:
	/// `reductions` may be null.
	cuda_issuer(const cuda_devices& devices, cuda_lanes& lanes, cuda_copies& copies, std::shared_ptr<const cuda_reductions> reductions);

	/// Before the first graph.
	void set_graphs(cuda_graph_launcher* const graphs) { m_graphs = graphs; }
	/// One thread for each device. Once all lanes exist.
	void start_workers(event_count& completions, bool may_spin);
	bool has_workers() const { return !m_workers.empty(); }

	/// Issues `what` behind its waits: on the worker of its device, or here if the rank has one device.
	void hand_over(lane_position position, const lane_waits& waits, decltype(cuda_operation::what)&& what);
	/// An operation of a graph, on a stream that captures it or on any other.
	void issue_on(cuda_lane& lane, const launch_operation& launch) { issue_kernels(kernel_target{&lane}, launch); }
	/// Likewise, on a stream that captures it. Returns the nodes of the kernels.
	cuda_kernel_nodes capture_on(cuda_lane& lane, const launch_operation& launch);
	/// In place of the kernels of an executable graph, whose launch differed by nothing but scalars.
	void change(cuda::executable_graph graph, cuda_kernel_nodes& nodes, const launch_operation& launch) { issue_kernels({nullptr, &nodes, graph}, launch); }
	void issue_on(cuda_lane& lane, const reduce_operation& reduce);
	void issue_on(cuda_lane& lane, const copy_operation& operation) { m_copies.copy(lane.stream(), operation); }
	void issue_on(cuda_lane& lane, const std::vector<copy_operation>& gathered) { m_copies.gather(lane, gathered); }

	/// Another thread has put something on the lane.
	void wake(lane_index lane);
	/// Throws the error of the worker if it has met one.
	void rethrow(const lane_index lane) const { m_workers[m_lanes.device_index(lane)]->rethrow(); }
	/// Blocks until everything that was handed over is on its lane.
	void wait_until_issued() const;
	void stop();

  private:
	/// Pulls whose stream waits for the flags. Without `kernel`, copy engines fetch.
	struct fetch {
		const std::vector<pull_operation>& pulls;
		const cuda_small_copies* kernel;
	};
	/// Where the kernels of a launch go.
	struct kernel_target {
		cuda_lane* lane = nullptr;         ///< null: into the graph
		cuda_kernel_nodes* nodes = nullptr; ///< of the graph, or of the capture on the lane; null: neither
		cuda::executable_graph graph = nullptr;
		std::size_t next = 0; ///< node of the graph
	};

	const cuda::driver& m_driver;
	const cuda_devices& m_devices;
	cuda_lanes& m_lanes;
	cuda_copies& m_copies;
	const std::shared_ptr<const cuda_reductions> m_reductions;
	cuda_graph_launcher* m_graphs = nullptr;
	std::vector<packed_parameters> m_parameters;         // by device
	std::vector<fused_block> m_blocks;                   // by device
	std::vector<std::unique_ptr<cuda_worker>> m_workers; // by device; none if there is only one device

	void issue(cuda_operation& operation);
	/// Issues `what`, which is `operation` or a part of it, behind its waits. False if cancelled.
	template <typename What>
	bool issue_at(lane_position position, const cuda_operation& operation, const What& what);
	void issue_signals(const cuda_operation& operation, const cuda_signals& signals);
	void issue_pulls(const cuda_operation& operation, const std::vector<pull_operation>& pulls);
	void issue_on(cuda_lane& lane, const shared_flag& flag);
	void issue_on(cuda_lane& lane, const fetch& fetched);
	void issue_on(cuda_lane& lane, const cuda_graph_work& work);
	void write_answers(cuda_lane& lane, const std::vector<pull_operation>& pulls);
	void issue_kernels(kernel_target target, const launch_operation& launch);
	void issue_passes(kernel_target& target, const launch_operation& launch, const fused_kernel& kernel);
	void launch(kernel_target& target, const cuda::kernel_parameters& kernel);
	/// `count` times the same element, one after the other.
	void store(cuda::stream stream, void* destination, std::span<const std::byte> value, std::size_t count);
};

} // namespace celerity
