// SPDX-License-Identifier: MIT
// Devices, streams, events, graphs and memory of the emulated driver.
//
// One thread per device takes the next operation from any of its queues whose first one may go: which is left to chance, and now and then a queue rests.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <string>
#include <thread>

#include "backends/cuda/cuda_driver.hpp"
#include "cuda.hpp"

namespace emulated_cuda::inner {

namespace cuda = celerity::cuda;
using cuda::device_pointer;
using cuda::result;

class device_state;

struct stream_state;
struct graph_state;

/// Some multiprocessors of a device: a green context.
struct part_state {
	cuda::device device = 0;
	unsigned num_multiprocessors = 0;
	std::atomic<int> num_streams{0};
	bool is_set_up = false; ///< it has been converted to a context
};

struct event_state {
	std::atomic<const device_state*> device{nullptr}; ///< of the stream on which it was recorded
	std::atomic<std::uint64_t> recorded{0};
	std::atomic<std::uint64_t> reached{0};
	// If it was recorded in a capture.
	stream_state* captured_by = nullptr;
	std::shared_ptr<graph_state> capture;
	std::vector<cuda::graph_node> nodes;
};

struct operation {
	const char* name = "";
	std::function<bool()> may_go; ///< null: at once
	std::function<void()> run;
	bool is_graph = false;
};

struct queue {
	const device_state* device = nullptr;
	std::mutex mutex;
	std::condition_variable room;
	std::deque<operation> operations;
	std::uint32_t rounds_of_rest = 0; ///< the device's thread only, as the next
	bool is_busy = false;             ///< with its first operation
};

inline emulated_cuda::settings options;
inline std::atomic<std::uint64_t> flag_writes{0};
inline std::atomic<int> num_graphs{0}; ///< that can be launched
inline std::atomic<int> made_graphs{0}, launched_graphs{0}, changed_nodes{0}; ///< so far
inline std::atomic<int> num_streams{0}, num_events{0}, num_opened{0}, num_registered{0}, num_parts{0};
inline std::array<std::atomic<int>, 6> streams_by_priority{}; ///< made so far; -priority is the index
inline std::array<std::atomic<int>, 6> nodes_by_priority{};   ///< kernels of graphs, likewise
inline std::mutex launches_mutex;
inline std::map<const emulated_cuda::function*, std::map<unsigned, int>> launches; ///< by part
inline std::atomic<int> first_held{std::numeric_limits<int>::max()};

inline thread_local device_state* working = nullptr; ///< whose thread this is

struct graph_state {
	struct node {
		operation what;
		std::vector<std::size_t> after;
	};
	std::vector<node> nodes;
	stream_state* origin = nullptr;    ///< on which the capture began, and has to end
	std::vector<stream_state*> joined; ///< other streams of the capture
	std::vector<stream_state*> behind; ///< those of which the origin does not know all nodes
};

inline std::mutex live_captures_mutex;
inline std::set<const graph_state*> live_captures; ///< graphs that have not been destroyed
inline bool is_live(const graph_state* const graph) {
	const std::lock_guard lock(live_captures_mutex);
	return live_captures.contains(graph);
}

struct executable_graph_state {
	std::shared_ptr<const std::vector<graph_state::node>> nodes; ///< of the next launch; earlier ones have their own
	const graph_state* source = nullptr; ///< whose nodes changes name, if nobody has destroyed it
	std::atomic<int> num_in_flight{0};
};

struct stream_state {
	queue& operations;
	part_state* part = nullptr;            ///< null: the whole device
	std::shared_ptr<graph_state> capture{}; ///< while there is one
	std::vector<cuda::graph_node> latest{}; ///< nodes of the capture, counted from 1: the next one depends on them
};

class device_state {
  public:
	explicit device_state(const int number) : m_number(number), m_queues(options.num_queues), m_random(options.seed + static_cast<std::uint32_t>(number)) {
		for(auto& q : m_queues) q.device = this;
		std::thread([this] { work(); }).detach(); // the device outlives the process
	}

	bool is_lost() const { return m_is_lost; }
	void lose() { m_is_lost = true; }
	/// Any order that the edges allow. On the thread of the device. A node that waits keeps all others of the graph from running, as with one hardware queue.
	/// Meanwhile other queues may go on, but no other graph.
	void run_graph(const std::vector<graph_state::node>& nodes) {
		m_is_in_graph = true;
		std::vector<bool> is_done(nodes.size());
		std::vector<std::size_t> ready;
		for(std::size_t num_done = 0; num_done < nodes.size() && !m_is_lost; ++num_done) {
			ready.clear();
			for(std::size_t i = 0; i < nodes.size(); ++i) {
				const auto is_before = [&](const std::size_t earlier) { return bool{is_done[earlier]}; };
				if(!is_done[i] && std::all_of(nodes[i].after.begin(), nodes[i].after.end(), is_before)) ready.push_back(i);
			}
			const std::size_t chosen = ready.at(m_random() % ready.size());
			while(nodes[chosen].what.may_go && !nodes[chosen].what.may_go() && !m_is_lost) advance_some();
			if(m_is_lost) break;
			nodes[chosen].what.run();
			is_done[chosen] = true;
		}
		m_is_in_graph = false;
	}
	void wait_until_idle() {
		const auto is_idle = [&] {
			return std::all_of(m_queues.begin(), m_queues.end(), [](queue& q) {
				const std::lock_guard lock(q.mutex);
				return q.operations.empty();
			});
		};
		while(!m_is_lost && !is_idle()) std::this_thread::sleep_for(std::chrono::microseconds(50));
	}
	queue& next_queue() { return m_queues[m_num_streams++ % m_queues.size()]; }

	void describe(const int number) {
		for(std::size_t i = 0; i < m_queues.size(); ++i) {
			const std::lock_guard lock(m_queues[i].mutex);
			if(m_queues[i].operations.empty()) continue;
			std::fprintf(stderr, "device %d, queue %zu: %zu operations, the first is %s\n", number, i, m_queues[i].operations.size(),
			    m_queues[i].operations.front().name);
		}
	}

  private:
	const int m_number;
	std::vector<queue> m_queues;
	std::atomic<std::size_t> m_num_streams{0};
	std::mt19937 m_random;
	std::atomic<bool> m_is_lost{false};
	bool m_is_in_graph = false;

	void work() {
		working = this;
		while(!m_is_lost) advance_some();
	}

	void advance_some() {
		bool has_worked = false;
		const std::size_t first = m_random() % m_queues.size();
		for(std::size_t i = 0; i < m_queues.size() && m_number < first_held; ++i) has_worked |= advance(m_queues[(first + i) % m_queues.size()]);
		if(!has_worked) std::this_thread::sleep_for(std::chrono::microseconds(20)); // others may write flags
	}

	bool advance(queue& q) {
		if(q.rounds_of_rest > 0) {
			--q.rounds_of_rest;
			return true;
		}
		std::unique_lock lock(q.mutex);
		if(q.is_busy || q.operations.empty() || (q.operations.front().may_go && !q.operations.front().may_go())) return false;
		if(m_is_in_graph && q.operations.front().is_graph) return false;
		const auto todo = std::move(q.operations.front().run);
		q.is_busy = true;
		lock.unlock();
		todo();
		lock.lock();
		q.is_busy = false;
		q.operations.pop_front();
		if(m_random() % 64 == 0) q.rounds_of_rest = static_cast<std::uint32_t>(m_random() % 4000);
		q.room.notify_all();
		return true;
	}
};

inline std::vector<std::unique_ptr<device_state>>& devices() {
	static auto& all = *new std::vector<std::unique_ptr<device_state>>;
	static std::once_flag made;
	std::call_once(made, [] {
		for(int i = 0; i < options.num_devices; ++i) all.push_back(std::make_unique<device_state>(i));
	});
	return all;
}

inline thread_local cuda::context current = nullptr;
inline thread_local std::vector<const part_state*> parts_of_nodes; ///< of the latest capture of this thread

inline std::size_t index_of(const cuda::context context) { return reinterpret_cast<std::uintptr_t>(context) - 1; }
inline event_state& state_of(const cuda::event event) { return *reinterpret_cast<event_state*>(event); }
inline std::byte* at(const device_pointer address) { return reinterpret_cast<std::byte*>(address); }

inline stream_state& state_of(const cuda::stream stream) { return *reinterpret_cast<stream_state*>(stream); }
inline std::size_t index_of(const cuda::graph_node node) { return reinterpret_cast<std::uintptr_t>(node) - 1; }

template <typename T>
inline void add_once(std::vector<T>& to, const T added) {
	if(std::find(to.begin(), to.end(), added) == to.end()) to.push_back(added);
}

inline result capture(stream_state& stream, operation&& what) {
	auto& nodes = stream.capture->nodes;
	auto& added = nodes.emplace_back(graph_state::node{std::move(what), {}});
	for(const auto earlier : stream.latest) added.after.push_back(index_of(earlier));
	stream.latest = {reinterpret_cast<cuda::graph_node>(nodes.size())};
	parts_of_nodes.resize(nodes.size(), stream.part);
	if(&stream != stream.capture->origin) add_once(stream.capture->behind, &stream);
	return cuda::success;
}

/// An event joins another stream to a capture, or that stream's nodes to those of the origin.
inline result capture_wait(stream_state& stream, const event_state& event) {
	if(stream.capture != nullptr && stream.capture != event.capture) return 905; // CUDA_ERROR_STREAM_CAPTURE_ISOLATION
	if(stream.capture == nullptr) {
		stream.capture = event.capture;
		stream.latest.clear();
		stream.capture->joined.push_back(&stream);
		stream.capture->behind.push_back(&stream);
	}
	for(const auto node : event.nodes) add_once(stream.latest, node);
	if(&stream == stream.capture->origin) std::erase(stream.capture->behind, event.captured_by);
	return cuda::success;
}

/// A launch into a graph counts as well.
inline void count_launch(const emulated_cuda::function& launched, const stream_state& stream) {
	const std::lock_guard lock(launches_mutex);
	++launches[&launched][stream.part != nullptr ? stream.part->num_multiprocessors : 0];
}

inline result enqueue(const cuda::stream stream, const char* const name, std::function<bool()> may_go, std::function<void()> run, const bool is_graph = false) {
	if(state_of(stream).capture != nullptr) return capture(state_of(stream), {name, std::move(may_go), std::move(run), false});
	auto& q = state_of(stream).operations;
	std::unique_lock lock(q.mutex);
	q.room.wait(lock, [&] { return q.operations.size() < options.queue_depth; });
	q.operations.push_back({name, std::move(may_go), std::move(run), is_graph});
	return cuda::success;
}

inline cuda::stream make_stream(const std::size_t device, const int priority, part_state* const part) {
	++streams_by_priority[static_cast<std::size_t>(std::clamp(-priority, 0, 5))];
	++num_streams;
	return reinterpret_cast<cuda::stream>(new stream_state{devices().at(device)->next_queue(), part});
}

inline cuda::device_resource make_resource(const cuda::device device, const unsigned num_multiprocessors) {
	cuda::device_resource made{};
	made.kind = cuda::resource_multiprocessors;
	std::memcpy(made.internal, &device, sizeof device);
	made.num_multiprocessors = num_multiprocessors;
	return made;
}
inline cuda::device device_of(const cuda::device_resource& resource) {
	cuda::device device = 0;
	std::memcpy(&device, resource.internal, sizeof device);
	return device;
}

/// Memory of one kind, by address.
class memory {
  public:
	void* take(const std::size_t size_bytes) {
		void* const address = std::aligned_alloc(512, (size_bytes + 511) / 512 * 512);
		const std::lock_guard lock(m_mutex);
		m_sizes.emplace(address, size_bytes);
		m_total_bytes += size_bytes;
		return address;
	}
	result give_back(void* const address) {
		const std::lock_guard lock(m_mutex);
		const auto found = m_sizes.find(address);
		if(found == m_sizes.end()) return 1; // CUDA_ERROR_INVALID_VALUE
		m_total_bytes -= found->second;
		m_sizes.erase(found);
		std::free(address);
		return cuda::success;
	}
	bool holds(void* const address) {
		const std::lock_guard lock(m_mutex);
		const auto next = m_sizes.upper_bound(address);
		if(next == m_sizes.begin()) return false;
		const auto& [begin, size_bytes] = *std::prev(next);
		return static_cast<std::byte*>(address) < static_cast<std::byte*>(begin) + size_bytes;
	}
	std::size_t total_bytes() {
		const std::lock_guard lock(m_mutex);
		return m_total_bytes;
	}

  private:
	std::mutex m_mutex;
	std::map<void*, std::size_t> m_sizes;
	std::size_t m_total_bytes = 0;
};

inline memory device_memory, host_memory;
inline std::atomic<std::uint64_t> host_copies{0};

inline void count_copy(const device_pointer destination, const device_pointer source) {
	if(!device_memory.holds(at(destination)) || !device_memory.holds(at(source))) ++host_copies;
}

} // namespace emulated_cuda::inner
