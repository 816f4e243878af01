// SPDX-License-Identifier: MIT
#include "cuda_graph_launcher.hpp"

#include <algorithm>
#include <memory>
#include <set>
#include <stdexcept>
#include <utility>
#include <variant>

#include "cuda_exchange.hpp"
#include "scheduler/core/base/small_vector.hpp"

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

	/// The next node of a stream of the capture depends on these nodes.
	std::vector<cuda::graph_node> latest_nodes(const cuda::stream stream) const {
		const auto nodes = m_driver.latest_nodes(stream);
		return {nodes.begin(), nodes.end()};
	}
	void continue_after(const cuda::stream stream, std::vector<cuda::graph_node>& nodes) const {
		m_driver.check(m_driver.stream_update_capture(stream, nodes.data(), nodes.size(), cuda::capture_set_dependencies), "cuStreamUpdateCaptureDependencies");
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

bool is_kernel(const cuda_graph_node& node) { return node.what.has_value() && std::holds_alternative<launch_operation>(*node.what); }

/// Of a kernel; 0 for other operations.
queue_priority queue_of(const cuda_graph_node& node) { return is_kernel(node) ? std::get<launch_operation>(*node.what).queue : queue_priority{0}; }

} // namespace

cuda_graph_launcher::cuda_graph_launcher(backend& memory, const cuda_devices& devices, cuda_lanes& lanes, cuda_issuer& issuer, cuda_copies& copies,
    const cuda_options& options, const std::atomic<bool>& is_cancelled)
    : m_driver(devices.driver()), m_memory(memory), m_devices(devices), m_lanes(lanes), m_issuer(issuer), m_copies(copies), m_is_cancelled(is_cancelled) {
	if(devices.size() == 1) {
		if(options.graphs_exchange && devices.may_kernels_wait()) make_stop_word();
	} else if(options.graphs) {
		join_devices(options);
	}
	m_is_available = options.graphs && (devices.size() == 1 || !m_positions.empty());
	m_exchanges = m_is_available && options.graphs_exchange && devices.size() == 1 && copies.small(0).is_available() && m_stop_word != nullptr;
}

// Kernels of one device write flags into the memory of others, and wait for them.
void cuda_graph_launcher::join_devices(const cuda_options& options) {
	std::set<int> ordinals;
	for(const auto& device : m_devices) ordinals.insert(device.ordinal);
	if(ordinals.size() < m_devices.size() || options.small_copies.empty() || !cuda_devices::probe(options.ordinals).all_peers
	    || !m_devices.may_kernels_wait()) {
		return;
	}
	make_stop_word();
	for(std::uint32_t d = 0; d < m_devices.size(); ++d) m_positions.push_back({m_lanes.add_for_graphs(d), 0});
}

void cuda_graph_launcher::make_stop_word() {
	m_devices.make_current(m_devices.front().context);
	void* word = nullptr;
	m_driver.check(m_driver.host_allocate(&word, sizeof(std::uint32_t), cuda::host_memory_portable | cuda::host_memory_mapped), "cuMemHostAlloc");
	m_stop_word = static_cast<std::uint32_t*>(word);
	*m_stop_word = 0;
}

void cuda_graph_launcher::stop() {
	if(m_stop_word != nullptr) std::atomic_ref(*m_stop_word).store(1, std::memory_order_relaxed);
}

void cuda_graph_launcher::release() {
	if(m_flag_stream != nullptr) m_driver.stream_destroy(m_flag_stream);
	if(m_stop_word != nullptr) m_driver.host_free(m_stop_word);
}

// A kernel of a graph runs on the multiprocessors of the stream that has captured it, wherever the graph is launched. Exchanges and copies run on any.
cuda::graph cuda_graph_launcher::capture(const cuda_graph& graph, cuda_graph_part& part) {
	int least = 0;
	int greatest = 0; // smaller is more urgent
	m_driver.check(m_driver.stream_priorities(&least, &greatest), "cuCtxGetStreamPriorityRange");
	// Streams of its own: a launcher thread may be using those of other lanes.
	const auto make_lane = [&](const cuda::green_context on) {
		auto made = std::make_unique<cuda_lane>(m_driver, m_devices[part.device.value].context, part.device.value, 0, nullptr, lane_index{0}, false);
		made->open(on);
		return made;
	};
	const auto whole = make_lane(nullptr);
	std::unique_ptr<cuda_lane> share, rest;
	if(const auto* const split = m_lanes.split_of(part.device)) {
		share = make_lane(split->share);
		rest = make_lane(split->rest);
	}
	open_capture captured(m_driver, whole->stream());
	if(share != nullptr) {
		whole->record(1);
		for(const auto* const other : {share.get(), rest.get()}) whole->make_wait(other->stream(), 1); // which begins their capture
	}
	const auto lane_for = [&](const cuda_graph_node& node) -> cuda_lane& {
		if(share == nullptr || !is_kernel(node)) return *whole;
		return m_lanes.is_apart(queue_of(node)) ? *share : *rest;
	};
	std::vector<std::vector<cuda::graph_node>> last_nodes; // of each node of the part
	std::vector<cuda::graph_node> before;
	for(const auto& node : part.nodes) {
		auto& lane = lane_for(node);
		before.clear();
		for(const auto earlier : node.after) before.insert(before.end(), last_nodes[earlier].begin(), last_nodes[earlier].end());
		captured.continue_after(lane.stream(), before);
		if(node.is_exchange()) {
			issue_exchange(lane, graph, part, node);
		} else if(node.fetches) {
			m_copies.copy_by_kernels(lane, copies_of(*node.what));
		} else if(node.changeable.has_value()) {
			part.changeable.emplace(*node.changeable, m_issuer.capture_on(lane, std::get<launch_operation>(*node.what)));
		} else {
			std::visit([&](const auto& what) { m_issuer.issue_on(lane, what); }, *node.what);
		}
		last_nodes.push_back(captured.latest_nodes(lane.stream()));
		// As on streams: exchanges and borders before the kernels of all queues. They would otherwise begin when the last blocks of an earlier kernel have.
		const int priority = node.is_exchange() || node.is_urgent ? greatest : std::max(-static_cast<int>(queue_of(node)), greatest);
		if(priority != 0) set_priority(last_nodes.back().front(), priority);
	}
	if(share != nullptr) {
		for(auto* const other : {share.get(), rest.get()}) { // a capture ends on the stream on which it began
			other->record(1);
			other->make_wait(whole->stream(), 1);
		}
	}
	return captured.end();
}

void cuda_graph_launcher::set_priority(const cuda::graph_node kernel, const int priority) const {
	cuda::launch_attribute attribute{};
	attribute.priority = priority;
	m_driver.check(m_driver.graph_set_kernel_attribute(kernel, cuda::launch_attribute_priority, &attribute), "cuGraphKernelNodeSetAttribute");
}

void cuda_graph_launcher::issue_exchange(cuda_lane& lane, const cuda_graph& graph, const cuda_graph_part& part, const cuda_graph_node& node) {
	const auto address_of = [&](const std::uint32_t flag) { return graph.flag(device_id(lane.device()), flag); };
	cuda_exchange exchange;
	for(const auto flag : node.raised) exchange.raise(address_of(flag));
	for(const auto flag : node.awaited) exchange.await(address_of(flag));
	for(const auto flag : node.awaited_by_end) exchange.await_by_end(address_of(flag));
	for(const auto& put : node.puts) exchange.put(put.copy, graph.inbox_of_put(part, put), address_of(put.flag));
	auto& small = m_copies.small(lane.device());
	small.clear();
	const auto copies = node.what.has_value() ? copies_of(*node.what) : std::span<const copy_operation>();
	for(std::size_t i = 0; i < copies.size(); ++i) {
		if(i < node.arrivals.size() && node.arrivals[i].flag.has_value()) {
			exchange.fetch(copies[i], graph.inbox_of_arrival(part, node.arrivals[i]), address_of(*node.arrivals[i].flag));
		} else {
			cuda_copies::add(small, copies[i]);
		}
	}
	exchange.fetch(small.copies());
	exchange.launch(m_driver, small.compiled().exchange, lane.stream(), cuda::to_device_pointer(m_stop_word));
}

std::unique_ptr<operation_graph> cuda_graph_launcher::make(const std::span<const graph_operation> operations, const std::size_t num_flags) {
	cuda_small_copies scratch;
	const auto fits = [&](const decltype(graph_operation::what)& what) {
		scratch.clear();
		return cuda_copies::add_all(scratch, what) && scratch.may_exchange();
	};
	auto graph = std::make_unique<cuda_graph>(m_driver, part_by_device(operations, num_flags, fits), m_is_cancelled);
	for(const auto& part : graph->parts) {
		const auto size_bytes = cuda_graph::memory_bytes(part);
		if(size_bytes == 0) continue;
		auto* const address = m_memory.allocate(memory_of(part.device), size_bytes, cuda_graph::bytes_per_word);
		graph->set_memory(part.device, *m_devices[part.device.value].arena, address);
		m_devices.fill(memory_of(part.device), address, size_bytes, 0);
	}
	return graph;
}

// Kernels in the graph of one device may wait for that of another one, which nothing may hold up. So all handles exist before the first launch, and no launch
// comes before the launches of earlier runs on all devices.
void cuda_graph_launcher::enqueue(const lane_position position, const lane_waits& waits, operation_graph& operations, graph_values&& values) {
	auto& graph = static_cast<cuda_graph&>(operations);
	if(graph.parts.size() == 1) {
		cuda_graph_work work{&graph, &graph.parts.front(), true, true, {values.flags.begin(), values.flags.end()}, std::move(values.kernels)};
		return m_issuer.hand_over(position, waits, std::move(work));
	}
	const auto hand_over_parts = [&](const lane_waits& before, const bool launches) {
		std::vector<lane_position> behind;
		for(auto& part : graph.parts) {
			auto& last = m_positions.at(part.device.value);
			++last.sequence;
			small_vector<lane_position, 8> others; // the stream keeps its own order
			for(const auto& earlier : before.positions) {
				if(earlier.lane != last.lane) others.push_back(earlier);
			}
			cuda_graph_work work{&graph, &part, !launches, launches};
			for(auto& changed : values.kernels) {
				if(!launches && changed.launch.instruction->device == part.device) work.kernels.push_back(std::move(changed));
			}
			m_issuer.hand_over(last, {std::span(others.data(), others.size()), before.answers}, std::move(work));
			behind.push_back(last);
		}
		return behind;
	};
	hand_over_parts({}, false);
	std::vector<lane_position> before;
	const auto wait_for = [&](const lane_position& earlier) {
		if(earlier == m_latest.complete) { // a wait that follows other waits takes the devices longer
			before.insert(before.end(), m_latest.parts.begin(), m_latest.parts.end());
		} else {
			before.push_back(earlier);
		}
	};
	for(const auto& earlier : waits.positions) wait_for(earlier);
	if(position.sequence > 1) wait_for({position.lane, position.sequence - 1}); // as the parts run on other lanes
	m_latest = {position, hand_over_parts({before, waits.answers}, true)};
	m_issuer.hand_over(position, {m_latest.parts, {}}, shared_flag{}); // complete when all parts are
}

// Launches that follow each other on a stream take 2 us each. Many flags are therefore written on another stream while earlier launches of the graph run.
void cuda_graph_launcher::set_flags(const cuda_lane& lane, const cuda_graph_work& work) {
	auto& small = m_copies.small(lane.device());
	const auto table = work.graph->flag(work.part->device, 0);
	if(work.flags.size() <= flags_per_launch) return small.set_flags(m_driver, lane.stream(), work.flags, table);
	if(m_flag_stream == nullptr) m_driver.check(m_driver.stream_create(&m_flag_stream, cuda::stream_non_blocking, 0), "cuStreamCreateWithPriority");
	const auto& next = work.graph->take_next_table(*work.part);
	m_driver.check(m_driver.stream_wait_event(m_flag_stream, next.is_taken, 0), "cuStreamWaitEvent");
	small.set_flags(m_driver, m_flag_stream, work.flags, next.address);
	m_driver.check(m_driver.event_record(next.is_written, m_flag_stream), "cuEventRecord");
	m_driver.check(m_driver.stream_wait_event(lane.stream(), next.is_written, 0), "cuStreamWaitEvent");
	small.clear();
	strided_copy all;
	all.run_bytes = work.flags.size() * sizeof(graph_flag);
	small.add_of_any_size(reinterpret_cast<const void*>(next.address), reinterpret_cast<void*>(table), all);
	small.launch(m_driver, lane.stream());
	m_driver.check(m_driver.event_record(next.is_taken, lane.stream()), "cuEventRecord");
}

void cuda_graph_launcher::issue(cuda_lane& lane, const cuda_graph_work& work) {
	auto& part = *work.part;
	const auto& small = m_copies.small(lane.device());
	if(part.handle == nullptr) {
		const cuda::graph graph = capture(*work.graph, part);
		const auto code = m_driver.graph_instantiate(&work.part->handle, graph, cuda::instantiate_with_node_priorities);
		if(part.changeable.empty()) {
			m_driver.graph_destroy(graph);
		} else {
			work.part->source = graph;
		}
		m_driver.check(code, "cuGraphInstantiate");
		if(!part.words.empty()) small.set_flags(m_driver, lane.stream(), work.graph->flags_with_devices(part), work.graph->flag(part.device, 0));
	}
	for(const auto& [number, launch] : work.kernels) m_issuer.change(part.handle, part.changeable.at(number), launch);
	if(work.prepares) {
		if(!work.flags.empty()) set_flags(lane, work);
		if(!part.words.empty()) small.advance_flags(m_driver, lane.stream(), work.graph->flag(part.device, 0), part.num_flags);
	}
	if(work.launches) m_driver.check(m_driver.graph_launch(part.handle, lane.stream()), "cuGraphLaunch");
}

} // namespace celerity
