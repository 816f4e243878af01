// SPDX-License-Identifier: MIT
// One thread per device takes the next operation from any of its queues whose first one may go: which is left to chance, and now and then a queue rests.
#include "cuda.hpp"

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
#include <thread>

#include "backends/cuda/cuda_driver.hpp"

namespace {

namespace cuda = celerity::cuda;
using cuda::device_pointer;
using cuda::result;

class device_state;

struct event_state {
	std::atomic<const device_state*> device{nullptr}; ///< of the stream on which it was recorded
	std::atomic<std::uint64_t> recorded{0};
	std::atomic<std::uint64_t> reached{0};
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

emulated_cuda::settings options;
std::atomic<std::uint64_t> flag_writes{0};
std::atomic<int> num_graphs{0}; ///< that can be launched
std::atomic<int> num_streams{0}, num_events{0}, num_opened{0}, num_registered{0};
std::array<std::atomic<int>, 6> streams_by_priority{}; ///< made so far; -priority is the index
std::array<std::atomic<int>, 6> nodes_by_priority{};   ///< kernels of graphs, likewise
std::atomic<int> first_held{std::numeric_limits<int>::max()};

thread_local device_state* working = nullptr; ///< whose thread this is

struct graph_state {
	struct node {
		operation what;
		std::vector<std::size_t> after;
	};
	std::vector<node> nodes;
};

struct executable_graph_state {
	std::vector<graph_state::node> nodes;
	std::atomic<int> num_in_flight{0};
};

struct stream_state {
	queue& operations;
	std::unique_ptr<graph_state> capture;  ///< while there is one
	std::vector<cuda::graph_node> latest; ///< nodes of the capture, counted from 1: the next one depends on them
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

std::vector<std::unique_ptr<device_state>>& devices() {
	static auto& all = *new std::vector<std::unique_ptr<device_state>>;
	static std::once_flag made;
	std::call_once(made, [] {
		for(int i = 0; i < options.num_devices; ++i) all.push_back(std::make_unique<device_state>(i));
	});
	return all;
}

thread_local cuda::context current = nullptr;

std::size_t index_of(const cuda::context context) { return reinterpret_cast<std::uintptr_t>(context) - 1; }
event_state& state_of(const cuda::event event) { return *reinterpret_cast<event_state*>(event); }
std::byte* at(const device_pointer address) { return reinterpret_cast<std::byte*>(address); }

stream_state& state_of(const cuda::stream stream) { return *reinterpret_cast<stream_state*>(stream); }
std::size_t index_of(const cuda::graph_node node) { return reinterpret_cast<std::uintptr_t>(node) - 1; }

result capture(stream_state& stream, operation&& what) {
	auto& nodes = stream.capture->nodes;
	auto& added = nodes.emplace_back(graph_state::node{std::move(what), {}});
	for(const auto earlier : stream.latest) added.after.push_back(index_of(earlier));
	stream.latest = {reinterpret_cast<cuda::graph_node>(nodes.size())};
	return cuda::success;
}

result enqueue(const cuda::stream stream, const char* const name, std::function<bool()> may_go, std::function<void()> run, const bool is_graph = false) {
	if(state_of(stream).capture != nullptr) return capture(state_of(stream), {name, std::move(may_go), std::move(run), false});
	auto& q = state_of(stream).operations;
	std::unique_lock lock(q.mutex);
	q.room.wait(lock, [&] { return q.operations.size() < options.queue_depth; });
	q.operations.push_back({name, std::move(may_go), std::move(run), is_graph});
	return cuda::success;
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

memory device_memory, host_memory;
std::atomic<std::uint64_t> host_copies{0};

void count_copy(const device_pointer destination, const device_pointer source) {
	if(!device_memory.holds(at(destination)) || !device_memory.holds(at(source))) ++host_copies;
}

} // namespace

namespace emulated_cuda {

void configure(const settings& values) { options = values; }
void trap() { working->lose(); }
bool is_lost(const int device) { return devices().at(static_cast<std::size_t>(device))->is_lost(); }
void hold(const bool is_held, const int first_device) { first_held = is_held ? first_device : std::numeric_limits<int>::max(); }
void count_flag_write() { ++flag_writes; }
std::uint64_t num_flag_writes() { return flag_writes; }
std::uint64_t num_host_copies() { return host_copies; }
int num_streams_made(const int priority) { return streams_by_priority.at(static_cast<std::size_t>(priority)); }
int num_nodes_made(const int priority) { return nodes_by_priority.at(static_cast<std::size_t>(priority)); }
int num_live_graphs() { return num_graphs; }
holdings held() { return {device_memory.total_bytes(), host_memory.total_bytes(), num_streams, num_events, num_graphs, num_opened, num_registered}; }
void describe() {
	for(std::size_t i = 0; i < devices().size(); ++i) devices()[i]->describe(static_cast<int>(i));
}

} // namespace emulated_cuda

#define EMULATED extern "C" __attribute__((visibility("default"))) result

EMULATED cuInit(unsigned) { return cuda::success; }
EMULATED cuDriverGetVersion(int* const version) {
	*version = 13000;
	return cuda::success;
}
EMULATED cuGetErrorName(result, const char** const text) {
	*text = "EMULATED_ERROR";
	return cuda::success;
}
EMULATED cuGetErrorString(result, const char** const text) {
	*text = "an error of the emulated driver";
	return cuda::success;
}
EMULATED cuDeviceGetCount(int* const count) {
	*count = options.num_devices;
	return cuda::success;
}
EMULATED cuDeviceGet(cuda::device* const out, const int ordinal) {
	*out = ordinal;
	return cuda::success;
}
EMULATED cuDeviceGetName(char* const name, const int length, cuda::device) {
	std::snprintf(name, static_cast<std::size_t>(length), "emulated");
	return cuda::success;
}
EMULATED cuDeviceGetUuid_v2(unsigned char* const bytes, const cuda::device device) {
	std::memset(bytes, device, 16);
	return cuda::success;
}
EMULATED cuDeviceTotalMem_v2(std::size_t* const bytes, cuda::device) {
	*bytes = std::size_t{1} << 30;
	return cuda::success;
}
EMULATED cuDeviceGetAttribute(int* const value, const int attribute, cuda::device) {
	*value = attribute == cuda::attribute_max_pitch ? 1 << 30 : 0;
	return cuda::success;
}
EMULATED cuDeviceCanAccessPeer(int* const can, cuda::device, cuda::device) {
	*can = 1;
	return cuda::success;
}
EMULATED cuDevicePrimaryCtxRetain(cuda::context* const out, const cuda::device device) {
	*out = reinterpret_cast<cuda::context>(static_cast<std::uintptr_t>(device) + 1);
	return cuda::success;
}
EMULATED cuCtxSetCurrent(const cuda::context context) {
	current = context;
	return cuda::success;
}
EMULATED cuCtxGetCurrent(cuda::context* const out) {
	*out = current;
	return cuda::success;
}
EMULATED cuCtxEnablePeerAccess(cuda::context, unsigned) { return cuda::success; }
EMULATED cuCtxGetStreamPriorityRange(int* const least, int* const greatest) {
	*least = 0;
	*greatest = -5;
	return cuda::success;
}
EMULATED cuStreamCreateWithPriority(cuda::stream* const out, unsigned, const int priority) {
	++streams_by_priority[static_cast<std::size_t>(std::clamp(-priority, 0, 5))];
	*out = reinterpret_cast<cuda::stream>(new stream_state{devices().at(index_of(current))->next_queue(), nullptr, {}});
	++num_streams;
	return cuda::success;
}
EMULATED cuStreamDestroy_v2(const cuda::stream stream) {
	delete &state_of(stream);
	--num_streams;
	return cuda::success;
}
EMULATED cuStreamBeginCapture_v2(const cuda::stream stream, int) {
	state_of(stream).capture = std::make_unique<graph_state>();
	state_of(stream).latest.clear();
	return cuda::success;
}
EMULATED cuStreamGetCaptureInfo_v2(const cuda::stream stream, int* const status, unsigned long long* const id, cuda::graph* const out,
    const cuda::graph_node** const nodes, std::size_t* const num_nodes) {
	const auto& state = state_of(stream);
	*status = state.capture != nullptr ? 1 : 0;
	*id = 1;
	*out = reinterpret_cast<cuda::graph>(state.capture.get());
	*nodes = state.latest.data();
	*num_nodes = state.latest.size();
	return cuda::success;
}
EMULATED cuStreamUpdateCaptureDependencies(const cuda::stream stream, cuda::graph_node* const nodes, const std::size_t num_nodes, const unsigned flags) {
	auto& state = state_of(stream);
	if(state.capture == nullptr || flags != cuda::capture_set_dependencies) return 1; // CUDA_ERROR_INVALID_VALUE
	state.latest.assign(nodes, nodes + num_nodes);
	return cuda::success;
}
EMULATED cuStreamEndCapture(const cuda::stream stream, cuda::graph* const out) {
	*out = reinterpret_cast<cuda::graph>(state_of(stream).capture.release());
	return cuda::success;
}
EMULATED cuGraphKernelNodeSetAttribute(const cuda::graph_node node, const int attribute, const cuda::launch_attribute* const value) {
	if(node == nullptr || attribute != cuda::launch_attribute_priority || value->priority > 0 || value->priority < -5) return 1; // CUDA_ERROR_INVALID_VALUE
	++nodes_by_priority[static_cast<std::size_t>(-value->priority)];
	return cuda::success;
}
EMULATED cuGraphInstantiateWithFlags(cuda::executable_graph* const out, const cuda::graph graph, unsigned long long) {
	if(options.instantiation_waits) devices().at(index_of(current))->wait_until_idle();
	auto* const made = new executable_graph_state;
	made->nodes = reinterpret_cast<const graph_state*>(graph)->nodes;
	*out = reinterpret_cast<cuda::executable_graph>(made);
	++num_graphs;
	return cuda::success;
}
EMULATED cuGraphDestroy(const cuda::graph graph) {
	delete reinterpret_cast<graph_state*>(graph);
	return cuda::success;
}
EMULATED cuGraphLaunch(const cuda::executable_graph graph, const cuda::stream stream) {
	auto& launched = *reinterpret_cast<executable_graph_state*>(graph);
	++launched.num_in_flight;
	const auto run = [&launched] {
		working->run_graph(launched.nodes);
		--launched.num_in_flight;
	};
	return enqueue(stream, "graph", nullptr, run, true);
}
EMULATED cuGraphExecDestroy(const cuda::executable_graph graph) {
	auto* const destroyed = reinterpret_cast<executable_graph_state*>(graph);
	if(destroyed->num_in_flight > 0) {
		std::fprintf(stderr, "FAILED: a graph is destroyed while a stream carries it out\n");
		std::abort();
	}
	delete destroyed;
	--num_graphs;
	return cuda::success;
}
EMULATED cuStreamSynchronize(const cuda::stream stream) {
	std::atomic<bool> is_done{false};
	enqueue(stream, "synchronize", nullptr, [&] { is_done = true; });
	while(!is_done) std::this_thread::yield();
	return cuda::success;
}
EMULATED cuEventCreate(cuda::event* const out, unsigned) {
	*out = reinterpret_cast<cuda::event>(new event_state);
	++num_events;
	return cuda::success;
}
EMULATED cuEventDestroy_v2(cuda::event) { // a queue may still know it
	--num_events;
	return cuda::success;
}
EMULATED cuEventRecord(const cuda::event event, const cuda::stream stream) {
	auto& state = state_of(event);
	const std::uint64_t number = ++state.recorded;
	state.device = state_of(stream).operations.device;
	return enqueue(stream, "record", nullptr, [&state, number] { state.reached = number; });
}
EMULATED cuEventQuery(const cuda::event event) {
	const auto& state = state_of(event);
	if(const auto* const device = state.device.load(); device != nullptr && device->is_lost()) return 719; // CUDA_ERROR_LAUNCH_FAILED
	return state.reached >= state.recorded ? cuda::success : cuda::error_not_ready;
}
EMULATED cuEventElapsedTime(float* const out, cuda::event, cuda::event) {
	*out = 0;
	return cuda::success;
}
EMULATED cuStreamWaitEvent(const cuda::stream stream, const cuda::event event, unsigned) {
	const auto& state = state_of(event);
	const std::uint64_t number = state.recorded;
	return enqueue(stream, "a wait for an event", [&state, number] { return state.reached >= number; }, [] {});
}
EMULATED cuStreamBatchMemOp_v2(const cuda::stream stream, const unsigned count, cuda::memory_operation* const operations, unsigned) {
	if(count > 255) return 1; // CUDA_ERROR_INVALID_VALUE
	for(unsigned i = 0; i < count; ++i) {
		auto& word = *reinterpret_cast<std::uint32_t*>(operations[i].address);
		const auto value = static_cast<std::uint32_t>(operations[i].value);
		if(operations[i].kind == cuda::memory_operation_write) {
			++flag_writes;
			enqueue(stream, "a flag to write", nullptr, [&word, value] { std::atomic_ref(word).store(value, std::memory_order_release); });
		} else {
			const auto is_there = [&word, value] { return static_cast<std::int32_t>(std::atomic_ref(word).load(std::memory_order_acquire) - value) >= 0; };
			enqueue(stream, "a wait for a flag", is_there, [] {});
		}
	}
	return cuda::success;
}
EMULATED cuMemGetInfo_v2(std::size_t* const free_bytes, std::size_t* const total_bytes) {
	*free_bytes = *total_bytes = std::size_t{1} << 30;
	return cuda::success;
}
EMULATED cuMemAlloc_v2(device_pointer* const out, const std::size_t size_bytes) {
	*out = cuda::to_device_pointer(device_memory.take(size_bytes));
	return cuda::success;
}
EMULATED cuMemFree_v2(const device_pointer address) { return device_memory.give_back(at(address)); }
EMULATED cuMemHostAlloc(void** const out, const std::size_t size_bytes, unsigned) {
	*out = host_memory.take(size_bytes);
	return cuda::success;
}
EMULATED cuMemFreeHost(void* const address) { return host_memory.give_back(address); }
EMULATED cuMemHostRegister_v2(void*, std::size_t, unsigned) {
	++num_registered;
	return cuda::success;
}
EMULATED cuMemHostUnregister(void*) {
	--num_registered;
	return cuda::success;
}
EMULATED cuMemHostGetDevicePointer_v2(device_pointer* const out, void* const address, unsigned) {
	*out = cuda::to_device_pointer(address);
	return cuda::success;
}
EMULATED cuMemcpyAsync(const device_pointer destination, const device_pointer source, const std::size_t size_bytes, const cuda::stream stream) {
	count_copy(destination, source);
	return enqueue(stream, "copy", nullptr, [=] { std::memcpy(at(destination), at(source), size_bytes); });
}
EMULATED cuMemcpy2DAsync_v2(const cuda::copy_2d* const copy, const cuda::stream stream) {
	count_copy(copy->destination_device, copy->source_device);
	return enqueue(stream, "copy of rows", nullptr, [c = *copy] {
		for(std::size_t row = 0; row < c.height; ++row) {
			std::memcpy(at(c.destination_device) + row * c.destination_pitch, at(c.source_device) + row * c.source_pitch, c.width_bytes);
		}
	});
}
EMULATED cuMemcpy3DAsync_v2(const cuda::copy_3d* const copy, const cuda::stream stream) {
	count_copy(copy->destination_device, copy->source_device);
	return enqueue(stream, "copy of planes", nullptr, [c = *copy] {
		for(std::size_t plane = 0; plane < c.depth; ++plane) {
			for(std::size_t row = 0; row < c.height; ++row) {
				std::memcpy(at(c.destination_device) + (plane * c.destination_height + row) * c.destination_pitch,
				    at(c.source_device) + (plane * c.source_height + row) * c.source_pitch, c.width_bytes);
			}
		}
	});
}
EMULATED cuMemsetD8Async(const device_pointer address, const unsigned char value, const std::size_t count, const cuda::stream stream) {
	return enqueue(stream, "fill", nullptr, [=] { std::memset(at(address), value, count); });
}
EMULATED cuMemsetD32Async(const device_pointer address, const unsigned value, const std::size_t count, const cuda::stream stream) {
	return enqueue(stream, "fill of words", nullptr, [=] { std::fill_n(reinterpret_cast<unsigned*>(address), count, value); });
}
EMULATED cuMemsetD2D8Async(const device_pointer address, const std::size_t pitch_bytes, const unsigned char value, const std::size_t width,
    const std::size_t height, const cuda::stream stream) {
	return enqueue(stream, "fill of rows", nullptr, [=] {
		for(std::size_t row = 0; row < height; ++row) std::memset(at(address) + row * pitch_bytes, value, width);
	});
}
EMULATED cuMemsetD2D32Async(const device_pointer address, const std::size_t pitch_bytes, const unsigned value, const std::size_t width,
    const std::size_t height, const cuda::stream stream) {
	return enqueue(stream, "fill of rows of words", nullptr, [=] {
		for(std::size_t row = 0; row < height; ++row) std::fill_n(reinterpret_cast<unsigned*>(at(address) + row * pitch_bytes), width, value);
	});
}
EMULATED cuLaunchKernel(const cuda::function handle, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, const cuda::stream stream,
    void** const parameters, void**) {
	const auto& function = *reinterpret_cast<const emulated_cuda::function*>(handle);
	std::vector<std::vector<std::byte>> copies;
	for(std::size_t i = 0; i < function.parameter_bytes.size(); ++i) {
		const auto* const bytes = static_cast<const std::byte*>(parameters[i]);
		copies.emplace_back(bytes, bytes + function.parameter_bytes[i]);
	}
	const auto call_with = [](auto* const called, const auto& bytes) {
		std::vector<void*> pointers;
		for(const auto& copy : bytes) pointers.push_back(const_cast<std::byte*>(copy.data()));
		return called(pointers.data());
	};
	std::function<bool()> may_go;
	if(function.may_go != nullptr) may_go = [=, &function] { return call_with(function.may_go, copies); };
	return enqueue(stream, function.may_go != nullptr ? "a kernel that waits" : "kernel", std::move(may_go),
	    [=, &function] { call_with(function.run, copies); });
}
EMULATED cuIpcGetMemHandle(cuda::ipc_handle* const out, const device_pointer address) {
	if(current == nullptr) return 201; // CUDA_ERROR_INVALID_CONTEXT
	std::memset(out, 0, sizeof *out);
	std::memcpy(out, &address, sizeof address);
	return cuda::success;
}
EMULATED cuIpcOpenMemHandle_v2(device_pointer* const out, const cuda::ipc_handle handle, unsigned) { // within the process that made it
	std::memcpy(out, &handle, sizeof *out);
	++num_opened;
	return cuda::success;
}
EMULATED cuIpcCloseMemHandle(device_pointer) {
	--num_opened;
	return cuda::success;
}
