// SPDX-License-Identifier: MIT
// Graphs: operations that the driver puts on a device by one call.
#include "cuda_backend.hpp"

#include <memory>
#include <stdexcept>
#include <utility>

namespace celerity {

namespace {

/// Ends the capture of a stream however the capture goes.
class open_capture {
  public:
	open_capture(const cuda::driver& driver, const cuda::stream stream) : m_driver(driver), m_stream(stream) {
		m_driver.check(m_driver.stream_begin_capture(stream, cuda::capture_relaxed), "cuStreamBeginCapture");
	}
	~open_capture() {
		cuda::graph graph = nullptr;
		if(m_is_open) m_driver.stream_end_capture(m_stream, &graph);
		if(graph != nullptr) m_driver.graph_destroy(graph);
	}
	open_capture(const open_capture&) = delete;
	open_capture& operator=(const open_capture&) = delete;

	/// The next node depends on these nodes.
	std::vector<cuda::graph_node> latest_nodes() const {
		int status = 0;
		unsigned long long id = 0;
		cuda::graph graph = nullptr;
		const cuda::graph_node* nodes = nullptr;
		std::size_t num_nodes = 0;
		m_driver.check(m_driver.stream_get_capture(m_stream, &status, &id, &graph, &nodes, &num_nodes), "cuStreamGetCaptureInfo");
		return {nodes, nodes + num_nodes};
	}
	void continue_after(std::vector<cuda::graph_node>& nodes) const {
		m_driver.check(m_driver.stream_update_capture(m_stream, nodes.data(), nodes.size(), cuda::capture_set_dependencies),
		    "cuStreamUpdateCaptureDependencies");
	}
	cuda::graph end() {
		m_is_open = false;
		cuda::graph graph = nullptr;
		m_driver.check(m_driver.stream_end_capture(m_stream, &graph), "cuStreamEndCapture");
		return graph;
	}

  private:
	const cuda::driver& m_driver;
	cuda::stream m_stream;
	bool m_is_open = true;
};

} // namespace

cuda::graph cuda_backend::capture(cuda_lane& lane, const std::span<const graph_operation> operations) {
	open_capture captured(m_driver, lane.stream());
	std::vector<std::vector<cuda::graph_node>> last_nodes; // of each operation
	std::vector<cuda::graph_node> nodes;
	for(const auto& operation : operations) {
		nodes.clear();
		for(const auto earlier : operation.after) nodes.insert(nodes.end(), last_nodes[earlier].begin(), last_nodes[earlier].end());
		captured.continue_after(nodes);
		std::visit([&](const auto& what) { issue_on(lane, what); }, operation.what);
		last_nodes.push_back(captured.latest_nodes());
	}
	return captured.end();
}

// A stream of its own: a stream of the rank may be in use by another thread.
std::unique_ptr<operation_graph> cuda_backend::make_graph(const device_id device, const std::span<const graph_operation> operations) {
	cuda_lane lane(m_driver, m_devices.at(device.value).context, device.value, 0);
	const cuda::graph graph = capture(lane, operations);
	cuda::executable_graph handle = nullptr;
	const auto code = m_driver.graph_instantiate(&handle, graph, 0);
	m_driver.graph_destroy(graph);
	m_driver.check(code, "cuGraphInstantiate");
	return std::make_unique<cuda_graph>(m_driver, handle, m_is_cancelled);
}

void cuda_backend::enqueue_graph(const lane_position position, const lane_waits& waits, const operation_graph& graph) {
	hand_over(position, waits, &static_cast<const cuda_graph&>(graph));
}

void cuda_backend::issue_on(cuda_lane& lane, const cuda_graph* const graph) {
	m_driver.check(m_driver.graph_launch(graph->handle(), lane.stream()), "cuGraphLaunch");
}

} // namespace celerity
