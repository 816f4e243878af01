// SPDX-License-Identifier: MIT
// Graphs: operations that the driver puts on a device by one call.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cuda_copies.hpp"
#include "cuda_devices.hpp"
#include "cuda_graph.hpp"
#include "cuda_issuer.hpp"
#include "cuda_lanes.hpp"
#include "devices/backend.hpp"
#include "devices/graph_devices.hpp"

namespace celerity {

class cuda_graph_launcher final : public graph_devices {
  public:
	/// Before the workers start. `memory` gives memory of devices for flags; it is used once it exists. `is_cancelled` outlives all graphs.
	cuda_graph_launcher(backend& memory, const cuda_devices& devices, cuda_lanes& lanes, cuda_issuer& issuer, cuda_copies& copies, const cuda_options& options,
	    const std::atomic<bool>& is_cancelled);

	/// Whether the devices carry out graphs.
	bool is_available() const { return m_is_available; }
	bool exchange() const override { return m_exchanges; }
	std::unique_ptr<operation_graph> make(std::span<const graph_operation> operations, std::size_t num_flags) override;
	void enqueue(lane_position position, const lane_waits& waits, operation_graph& graph, graph_values&& values) override;

	/// On the thread that issues operations of the device.
	void issue(cuda_lane& lane, const cuda_graph_work& work);
	/// Kernels that wait for other ranks or devices end.
	void stop();
	/// Nothing runs on the devices.
	void release();

  private:
	const cuda::driver& m_driver;
	backend& m_memory;
	const cuda_devices& m_devices;
	cuda_lanes& m_lanes;
	cuda_issuer& m_issuer;
	cuda_copies& m_copies;
	const std::atomic<bool>& m_is_cancelled;
	bool m_is_available = false;
	bool m_exchanges = false;
	std::uint32_t* m_stop_word = nullptr;   // in pinned memory: kernels that wait for other ranks or devices look at it
	cuda::stream m_flag_stream = nullptr;   // on which flags are written ahead; of the only device
	std::vector<lane_position> m_positions; // by device: the last one on the lane for its parts; none if graphs cannot join devices
	struct {
		lane_position complete; // when all parts are
		std::vector<lane_position> parts;
	} m_latest; // of several devices

	void make_stop_word();
	/// Lanes for the parts of graphs, if they can wait for each other.
	void join_devices(const cuda_options& options);
	cuda::graph capture(const cuda_graph& graph, cuda_graph_part& part);
	/// Of kernels of a graph, with the current context.
	void set_priority(cuda::graph_node kernel, int priority) const;
	void issue_exchange(cuda_lane& lane, const cuda_graph& graph, const cuda_graph_part& part, const cuda_graph_node& node);
	/// With other ranks.
	void set_flags(const cuda_lane& lane, const cuda_graph_work& work);
};

} // namespace celerity
